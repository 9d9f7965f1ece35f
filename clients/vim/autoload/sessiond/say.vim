vim9script
# Words for the user, by `:messages`.

# error: {message, hint?}. `doing` names what failed.
export def Error(doing: string, error: dict<any>)
  var hint = get(error, 'hint', v:null)
  Echo('ErrorMsg', doing .. ': ' .. error.message .. (type(hint) == v:t_string ? $' ({hint})' : ''))
enddef

export def Warn(text: string)
  Echo('WarningMsg', text)
enddef

export def Info(text: string)
  Echo('None', text)
enddef

def Echo(group: string, text: string)
  # On one line and without control characters: text from a file or a model must not control the terminal.
  var line = text->substitute('[[:cntrl:]]\+', ' ', 'g')
  var whole = 'sessiond: ' .. line
  execute 'echohl' group
  echomsg whole
  # Vim would show both ends of a text that is too long for the line. The beginning matters most; `:messages` has the whole text.
  if strdisplaywidth(whole) > v:echospace
    redraw
    echo Beginning(whole, v:echospace - 1) .. '…'
  endif
  echohl None
enddef

# As much of it as fits.
def Beginning(text: string, cells: number): string
  var fits = strcharpart(text, 0, cells)
  while strdisplaywidth(fits) > cells
    fits = strcharpart(fits, 0, strchars(fits) - 1)
  endwhile
  return fits
enddef
