// What the dashboard's own script will do with the stream: connect in visible tabs only, and write numbers as text.

const live = document.getElementById('live');

// A hidden tab holds no stream. hx-sse has an option for that, but it misses a tab that hides while its request runs, and
// one that loads hidden. So hx-sse may connect only in a visible tab, and this script ends the stream of a hidden one.
// hx-sse repeats a stream that ends, but not a first request that fails, so the script asks again while there is none.
const patience = 5000;
let connection, asked = -patience;
function watch() {
  if (document.hidden) {
    connection?.abortController.abort();
  } else if (!connection && performance.now() - asked >= patience) {
    asked = performance.now();
    htmx.trigger(live, 'watch');
  }
}
live.addEventListener('htmx:sse:before:connection', event => {
  connection = event.detail.connection;
  if (document.hidden) event.preventDefault();
});
live.addEventListener('htmx:sse:close', () => {
  connection = undefined;
  asked = -patience;
  setTimeout(watch);
});
document.addEventListener('visibilitychange', watch);
document.addEventListener('DOMContentLoaded', () => setTimeout(watch));
setInterval(watch, 1000);

window.ticks = 0;
live.addEventListener('n', event => {
  for (const [id, values] of Object.entries(JSON.parse(event.detail.data))) {
    const cells = document.getElementById(id).cells;
    values.forEach((value, i) => {
      const text = cells[i + 1].firstChild;
      if (text.data !== String(value)) text.data = value;
    });
  }
  window.ticks++;
});

window.draw = () => new uPlot({
  width: 300, height: 100, series: [{}, {stroke: 'black'}], legend: {show: true},
}, [[1, 2, 3], [3, 1, 2]], document.getElementById('chart'));
