// Shows the numbers of queues as they change. Without this script a page shows the numbers of its load.

const mark = document.getElementById('live');
const trouble = document.getElementById('trouble');
const fresh = document.getElementById('fresh');
const places = new Map();
for (const box of document.querySelectorAll('[data-queue]')) {
  const list = places.get(box.dataset.queue) ?? [];
  places.set(box.dataset.queue, list.concat([...box.querySelectorAll('[data-live]')]));
}

let stream;
let heard = performance.now();
let asked = -Infinity;
let shownAt = '';
const unknown = new Set();
let paused = false;

// write changes the text of an element. The node stays, so a selection survives, and no garbage is left.
function write(place, text) {
  if (place.textContent === text) return;
  if (place.firstChild && text) place.firstChild.data = text; else place.textContent = text;
}

// A hidden tab holds no stream: browsers have six connections for all tabs of a server.
function watch() {
  if (document.hidden || paused) {
    stream?.close();
    stream = undefined;
    heard = performance.now();
    if (paused) write(mark, 'paused');
    return;
  }
  const now = performance.now();
  if ((!stream || stream.readyState === EventSource.CLOSED) && now - asked > 4000) {
    asked = now;
    open();
  }
  const old = now - heard > 5000;
  document.body.classList.toggle('old', old || !trouble.hidden);
  write(mark, old ? `no numbers since ${shownAt || 'the load'}` : 'live');
}

function open() {
  stream = new EventSource(document.body.dataset.stream);
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

mark.hidden = false;
document.addEventListener('pause', () => {
  paused = !paused;
  document.body.classList.toggle('paused', paused);
  asked = -Infinity;
  watch();
});
document.addEventListener('visibilitychange', () => { asked = -Infinity; watch(); });
setInterval(watch, 1000);
watch();
