// Results stand inside the calls that they answer, so that calls that follow each other are one group with a line for each.
//
// A result remains an article of its own, which is found, linked and counted as every other; only its place is in the fold of its
// call. It is looked for in the same page of the window, because pages come and go as a whole.

import { h } from '../dom.js'

/** Move a result's article into the fold of its call: the latest one among `articles` with that id. Returns false if none has it. */
export function nest(result, articles) {
  const id = result.dataset.answers
  if (!id) return false
  for (const article of [...articles].reverse()) {
    const fold = [...article.querySelectorAll('details.call')].findLast((one) => one.dataset.call === id)
    if (fold === undefined || fold.closest('.message') === result) continue
    fold.querySelector('.inside').append(result)
    for (const own of result.querySelectorAll('details.result')) own.open = true
    showOutcome(fold)
    return true
  }
  return false
}

/** The articles of results that stand in this one. */
export function nestedIn(article) {
  return [...article.querySelectorAll('.message')]
}

/** Open what a nested article stands in. */
export function unfold(article) {
  for (let fold = article.parentElement?.closest('details'); fold; fold = fold.parentElement.closest('details')) fold.open = true
}

/** Whether an article stands in a fold that is closed. */
export function isFolded(article) {
  return article.parentElement?.closest('details:not([open])') !== null
}

/** Say at the line of a call whether one of its results is a failure. */
export function showOutcome(fold) {
  const summary = fold.querySelector('summary')
  summary.querySelector('.mark')?.remove()
  if (fold.querySelector('.message.failed') !== null) summary.append(' ', h('span', { class: 'mark' }, 'failed'))
}
