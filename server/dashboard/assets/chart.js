// Draws the tables of the page as charts, and keeps them up to date. Without this script the tables remain.

const figures = [...document.querySelectorAll('figure[data-step]')];
const plots = new Map();
const dashes = [6, 5];

// read returns the points of a figure's table: the moments, then the numbers of each column. A gap has no numbers.
function read(figure) {
  const [from, to, step] = ['from', 'to', 'step'].map(name => Number(figure.dataset[name]));
  const times = [];
  const at = new Map();
  for (let t = from; from && t <= to; t += step) at.set(t, times.push(t) - 1);
  const columns = [...figure.querySelectorAll('thead th')].slice(1).map(() => new Array(times.length).fill(null));
  for (const row of figure.querySelectorAll('tbody tr')) {
    const place = at.get(Number(row.dataset.at));
    columns.forEach((column, i) => {
      const text = row.cells[i + 1].textContent;
      if (place === undefined || text === '') return;
      const value = Number(text);
      // A logarithmic axis has no zero.
      column[place] = figure.dataset.log ? Math.max(value, 0.001) : value;
    });
  }
  return [times, columns];
}

// split returns the data of a plot. The last point is unfinished, so its line is a series of its own, which is dashed.
function split([times, columns]) {
  const last = times.length - 1;
  const finished = columns.map(c => c.map((v, i) => i < last ? v : null));
  const unfinished = columns.map(c => c.map((v, i) => i >= last - 1 ? v : null));
  return [times, ...finished, ...unfinished];
}

function color(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

// resolve returns a color that a canvas understands: custom properties keep light-dark() as it is.
function resolve(figure, name) {
  figure.style.setProperty('outline-color', color(name));
  const text = getComputedStyle(figure).outlineColor;
  figure.style.removeProperty('outline-color');
  return text;
}

// clock returns a moment in UTC: with the date where the points are far apart.
function clock(figure, t, seconds) {
  const text = new Date(t * 1000).toISOString();
  return Number(figure.dataset.step) > 600 ? text.slice(5, 16).replace('T', ' ') : text.slice(11, seconds ? 19 : 16);
}

function draw(figure) {
  plots.get(figure)?.destroy();
  const names = [...figure.querySelectorAll('thead th')].slice(1).map(th => th.textContent);
  const lines = names.map((label, i) => ({label, stroke: resolve(figure, `--line-${i + 1}`), width: 2, points: {size: 4}}));
  const axis = {
    stroke: resolve(figure, '--quiet'), grid: {stroke: resolve(figure, '--line'), width: 1},
    ticks: {stroke: resolve(figure, '--line'), width: 1},
  };
  const holder = figure.querySelector('.plot');
  const plot = new uPlot({
    width: Math.max(holder.clientWidth, 200), height: 220,
    tzDate: t => uPlot.tzDate(new Date(t * 1000), 'UTC'),
    cursor: {sync: {key: 'charts'}},
    scales: {y: figure.dataset.log ? {distr: 3} : {range: (u, low, high) => [0, Math.max(high * 1.1, 1)]}},
    axes: [{...axis, values: (u, times) => times.map(t => clock(figure, t)), space: 80}, {...axis, size: 60}],
    series: [{label: 'Time', value: (u, t) => t === null ? '' : clock(figure, t, true)}, ...lines, ...lines.map(l => ({...l, dash: dashes, class: 'unfinished'}))],
  }, split(read(figure)), holder);
  plots.set(figure, plot);
}

// take puts the tables of the page that live.js has fetched into the charts, unless somebody reads in them.
function take({page, busy}) {
  for (const figure of figures) {
    const now = page.getElementById(figure.id);
    if (!now) continue;
    Object.assign(figure.dataset, now.dataset);
    figure.querySelector('.plot').setAttribute('aria-label', now.querySelector('.plot').getAttribute('aria-label'));
    if (!busy(figure)) figure.querySelector('tbody').replaceWith(now.querySelector('tbody'));
    plots.get(figure)?.setData(split(read(now)));
  }
}

function drawAll() {
  figures.forEach(draw);
}

drawAll();
document.addEventListener('fetched', event => take(event.detail));
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', drawAll);
addEventListener('resize', () => {
  for (const [figure, plot] of plots) {
    plot.setSize({width: Math.max(figure.querySelector('.plot').clientWidth, 200), height: 220});
  }
});
if (figures.length) {
  const pause = Math.min(Number(figures[0].dataset.step), 60);
  setInterval(() => document.dispatchEvent(new Event('refresh')), 1000 * pause);
}
