// Shows numbers as they change: those of queues from a stream, those of operations from the page itself. Without this
// script a page shows the numbers of its load.

const mark = document.getElementById('live');
const trouble = document.getElementById('trouble');
const fresh = document.getElementById('fresh');
const places = new Map();
for (const box of document.querySelectorAll('[data-queue]')) {
  const list = places.get(box.dataset.queue) ?? [];
  places.set(box.dataset.queue, list.concat([...box.querySelectorAll('[data-live]')]));
}

const from = document.body.dataset.stream;
let stream;
let heard = performance.now();
let asked = -Infinity;
let shownAt = '';
const unknown = new Set();
let paused = false;
let over = false;

// write changes the text of an element. The node stays, so a selection survives, and no garbage is left.
function write(place, text) {
  if (place.textContent === text) return;
  if (place.firstChild && text) place.firstChild.data = text; else place.textContent = text;
}

// A hidden tab holds no stream: browsers have six connections for all tabs of a server.
function watch() {
  if (over) return;
  if (document.hidden || paused) {
    stream?.close();
    stream = undefined;
    heard = performance.now();
    if (paused) write(mark, 'paused');
    return;
  }
  const now = performance.now();
  if (from && (!stream || stream.readyState === EventSource.CLOSED) && now - asked > 4000) {
    asked = now;
    open();
  }
  const old = now - heard > 5000;
  document.body.classList.toggle('old', old || !trouble.hidden);
  write(mark, old ? `no numbers since ${shownAt || 'the load'}` : 'live');
}

function open() {
  stream = new EventSource(from);
  stream.addEventListener('n', event => show(JSON.parse(event.data)));
  stream.addEventListener('a', () => document.dispatchEvent(new Event('refresh')));
  stream.addEventListener('hb', () => { heard = performance.now(); });
  stream.addEventListener('bye', event => {
    stream.close();
    if (JSON.parse(event.data) === 'session') location.reload();
  });
}

function show({at, queues, problem}) {
  heard = performance.now();
  if (problem) {
    if (trouble.hidden) trouble.textContent = `The engine does not answer since ${at}: ${problem}. The numbers are older.`;
    trouble.hidden = false;
    return watch();
  }
  trouble.hidden = true;
  shownAt = at;
  for (const [name, values] of Object.entries(queues)) {
    // Without fresh the page has a part of the queues.
    const list = places.get(name);
    if (!list) {
      if (values) unknown.add(name); else unknown.delete(name);
      continue;
    }
    for (const place of list) {
      const text = values ? values[place.dataset.live] ?? place.textContent : 'gone';
      write(place, text);
    }
  }
  if (fresh) {
    fresh.hidden = unknown.size === 0;
    fresh.firstElementChild.textContent = unknown.size === 1 ? '1 new queue' : `${unknown.size} new queues`;
  }
  watch();
}

// refresh fetches the page again and takes its lists, unless somebody reads in them.
async function refresh() {
  if (document.hidden || paused || over) return;
  const parts = [...document.querySelectorAll('[data-refresh]')];
  const at = parts[0]?.dataset.from ?? location.href;
  const answer = await fetch(at, {headers: {Accept: 'text/html'}}).catch(() => undefined);
  if (!answer?.ok || answer.redirected) return;
  const page = new DOMParser().parseFromString(await answer.text(), 'text/html');
  for (const part of parts) {
    const now = page.getElementById(part.id);
    // The forms of a page have new marks with each load, so only texts count.
    if (now && now.textContent !== part.textContent && !busy(part)) take(part, now);
  }
  for (const place of document.querySelectorAll('[data-number]')) {
    const now = page.querySelector(`[data-number="${CSS.escape(place.dataset.number)}"]`);
    if (now?.localName === 'progress') Object.assign(place, {max: now.max, value: now.value});
    else if (now) write(place, now.textContent);
  }
  if (!from) heardAll(page);
  document.dispatchEvent(new CustomEvent('fetched', {detail: {page, busy}}));
}

// heardAll ends the requests of a page whose operations have ended.
function heardAll(page) {
  heard = performance.now();
  shownAt = page.querySelector('footer time').textContent;
  over = !page.querySelector('[data-every]');
  mark.hidden = over;
}

// take replaces a part of the page. The rows of groups stay where they are, and new ones come last.
function take(part, now) {
  const known = new Map([...part.querySelectorAll('[data-group]')].map(row => [row.dataset.group, row]));
  const rows = [...now.querySelectorAll('[data-group]')];
  if (known.size && rows.length) {
    const place = row => {
      const old = [...known.keys()].indexOf(row.dataset.group);
      return old < 0 ? known.size : old;
    };
    rows[0].parentNode.append(...rows.sort((a, b) => place(a) - place(b)));
  }
  part.replaceChildren(...now.childNodes);
}

// busy reports whether the focus or the selection is in a part of the page.
function busy(part) {
  return part.contains(document.activeElement) || !getSelection().isCollapsed && getSelection().containsNode(part, true);
}

mark.hidden = false;
document.addEventListener('refresh', refresh);
const every = document.querySelector('[data-every]')?.dataset.every;
if (every) setInterval(refresh, 1000 * every);
document.addEventListener('pause', () => {
  paused = !paused;
  document.body.classList.toggle('paused', paused);
  asked = -Infinity;
  watch();
});
document.addEventListener('visibilitychange', () => { asked = -Infinity; watch(); });
setInterval(watch, 1000);
watch();
