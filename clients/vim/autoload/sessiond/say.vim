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
  # On one line and without control characters: what comes from a file or a model must not drive the terminal.
  var line = text->substitute('[[:cntrl:]]\+', ' ', 'g')
  execute 'echohl' group
  echomsg 'sessiond: ' .. line
  echohl None
enddef
