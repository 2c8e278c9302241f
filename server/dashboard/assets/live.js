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

// A hidden tab holds no stream: browsers have six connections for all tabs of a server.
function watch() {
  if (document.hidden) {
    stream?.close();
    stream = undefined;
    heard = performance.now();
    return;
  }
  const now = performance.now();
  if ((!stream || stream.readyState === EventSource.CLOSED) && now - asked > 4000) {
    asked = now;
    open();
  }
  const old = now - heard > 5000;
  document.body.classList.toggle('old', old || !trouble.hidden);
  mark.textContent = old ? `no numbers since ${shownAt || 'the load'}` : 'live';
}

function open() {
  stream = new EventSource(document.body.dataset.stream);
  stream.addEventListener('n', event => show(JSON.parse(event.data)));
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
      if (place.textContent !== text) place.textContent = text;
    }
  }
  if (fresh) {
    fresh.hidden = unknown.size === 0;
    fresh.firstElementChild.textContent = unknown.size === 1 ? '1 new queue' : `${unknown.size} new queues`;
  }
  watch();
}

mark.hidden = false;
document.addEventListener('visibilitychange', () => { asked = -Infinity; watch(); });
setInterval(watch, 1000);
watch();
