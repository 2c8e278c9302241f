// Keyboard shortcuts, and the filter of a list while somebody types. Without this script every control works by Tab and
// Enter, and the filter by its button.

const help = document.getElementById('help');
const dialog = document.getElementById('keys');
const use = document.getElementById('use-keys');
const off = 'duly-keys-off';

// rows are those of the page's main table: one link each.
const lists = ['main > .table tbody tr, .selection .table tbody tr', '#groups .table tbody tr'];
const rows = () => lists.map(list => [...document.querySelectorAll(list)]).find(list => list.length) ?? [];
let prefix = '';

function move(by) {
  const list = rows().filter(row => !row.hidden);
  const now = list.indexOf(document.activeElement?.closest('tr'));
  const next = now < 0 ? (by > 0 ? 0 : list.length - 1) : Math.min(Math.max(now + by, 0), list.length - 1);
  list[next]?.querySelector('th a, td a')?.focus();
}

const actions = {
  '/': () => document.querySelector('header [type=search], main [type=search]')?.focus(),
  '?': () => dialog?.showModal(),
  j: () => move(1),
  k: () => move(-1),
  x: () => document.activeElement?.closest('tr')?.querySelector('[type=checkbox]')?.click(),
  r: () => location.reload(),
  p: () => document.dispatchEvent(new Event('pause')),
  t: () => document.getElementById('theme')?.click(),
};

// Keys do nothing while somebody types, in a dialog, and with a modifier that belongs to the browser.
function typing(event) {
  return event.ctrlKey || event.metaKey || event.altKey || dialog?.open ||
    event.target.closest?.('input:not([type=checkbox]), textarea, select, [contenteditable]');
}

document.addEventListener('keydown', event => {
  if (typing(event) || use && !use.checked) return;
  const key = event.key;
  if (prefix === 'g') {
    prefix = '';
    document.querySelector(`[data-key="${CSS.escape(key)}"]`)?.click();
    return;
  }
  if (key === 'g') {
    prefix = key;
    return;
  }
  if (!Object.hasOwn(actions, key)) return;
  event.preventDefault();
  actions[key]();
});

const filter = document.querySelector('main [name=filter]');
filter?.addEventListener('input', () => {
  for (const row of rows()) row.hidden = !row.dataset.queue.includes(filter.value);
});

if (help) {
  help.hidden = false;
  help.addEventListener('click', () => dialog.showModal());
  use.checked = localStorage.getItem(off) === null;
  use.addEventListener('change', () => {
    if (use.checked) localStorage.removeItem(off); else localStorage.setItem(off, 'yes');
  });
}
