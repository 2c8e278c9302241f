package dashboard

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/wire"
	"github.com/dulymq/duly/server/audit"
	"github.com/dulymq/duly/server/dashboard/view"
	"github.com/dulymq/duly/server/route"
)

// maxExported is the number of jobs of one file, and exportStep that of one call.
const maxExported, exportStep = 100_000, 500

// exportLinks returns the links to a list as files.
func exportLinks(q duly.QueueRef, state string, filter ...string) (list []view.Link) {
	at := withQuery(queuePath(q.Namespace, q.Name, "export", state), filter...)
	for _, format := range []string{"ndjson", "csv"} {
		to := withQuery(at, "format", format)
		list = append(list, view.Link{Text: "Export as " + strings.ToUpper(format), To: to})
	}
	return list
}

// export streams a list of jobs as a file. It is an action of the audit log, because it copies jobs.
func (d *Dashboard) export(c *route.Call) error {
	list, err := d.listOf(c)
	if err != nil {
		return err
	}
	match, bodies, err := d.matcher(c, list.State)
	if err != nil {
		return err
	}
	s, err := d.session(c)
	if err != nil {
		return err
	}
	leave, err := d.exports.enter(d.cfg.Clock, maxExports)
	if err != nil {
		return err
	}
	defer leave()
	ctx, release, err := c.LongContext(c.Draining())
	if err != nil {
		return err
	}
	defer release()

	t := targetOf(c, nil)
	t.ids = []string{"state " + list.State.String()}
	end, err := d.begin(d.actionOf(c, "GET "+ofQueue.api+"/jobs", t, &s))
	if err != nil {
		return err
	}
	list.Bodies = bodies || c.Query("format") != "csv" && !d.cfg.HideBodies
	w := &exporter{Dashboard: d, call: c, csv: c.Query("format") == "csv", hidden: d.cfg.HideBodies, match: match}
	err = w.run(ctx, t.queue, list)
	end(audit.Outcome{Err: err, Done: w.n})
	if err != nil && w.out != nil {
		panic(http.ErrAbortHandler) // a file that ends early must not look whole
	}
	return err
}

// exporter writes a file.
type exporter struct {
	*Dashboard
	call        *route.Call
	csv, hidden bool
	match       func(*duly.JobInfo) bool
	out         *route.Stream // nil before the first page
	n           int
}

// run writes all pages of a list. It uses the engine as a search does.
func (w *exporter) run(ctx context.Context, q duly.QueueRef, list duly.ListParams) error {
	clock := w.cfg.Clock
	for begin := clock.Mono(); ; {
		list.Limit = min(exportStep, maxExported-w.n)
		page, err := w.cfg.Engine.List(ctx, q, list)
		if err != nil {
			return err
		}
		if err := w.write(page.Jobs); err != nil {
			return err
		}
		if list.Cursor = page.Next; list.Cursor == "" || w.n == maxExported {
			return nil
		}

		if clock.Mono()-begin < searchTime {
			continue
		}
		pause := clock.NewTimer(begin + searchEvery - clock.Mono())
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return context.Cause(ctx)
		}
		begin = clock.Mono()
	}
}

// columns are the first line of a file for spreadsheets.
var columns = []string{"id", "state", "priority", "attempt", "tries", "failures", "stalls", "pushed", "due", "expires",
	"lease_end", "finished", "order_key", "merge_key", "size", "last_error"}

// write appends the jobs that match.
func (w *exporter) write(jobs []duly.JobInfo) error {
	var text strings.Builder
	rows := csv.NewWriter(&text)
	if w.out == nil {
		if err := w.begin(); err != nil {
			return err
		}
		if w.csv {
			_ = rows.Write(columns) // a Builder has no errors
		}
	}

	var kept []duly.JobInfo
	for i := range jobs {
		examined := jobs[i] // a match drops the body
		if w.match == nil || w.match(&examined) {
			kept = append(kept, jobs[i])
		}
	}
	w.n += len(kept)
	for i := range kept {
		if w.hidden {
			kept[i].Headers, kept[i].Result = nil, nil
		}
		if w.csv {
			_ = rows.Write(cells(&kept[i]))
		}
	}
	if rows.Flush(); !w.csv {
		var page struct{ Jobs []json.RawMessage }
		if err := json.Unmarshal(wire.AppendJobs(nil, duly.ListPage{Jobs: kept}, !w.hidden), &page); err != nil {
			return err
		}
		for _, line := range page.Jobs {
			text.Write(append(line, '\n'))
		}
	}
	_, err := w.out.Write([]byte(text.String()))
	return err
}

// begin sends the headers of the file.
func (w *exporter) begin() (err error) {
	kind, name := "application/x-ndjson", w.call.PathValue("queue")+"-"+w.call.PathValue("state")+".ndjson"
	if w.csv {
		kind, name = "text/csv; charset=utf-8", strings.TrimSuffix(name, "ndjson")+"csv"
	}
	name = strings.ReplaceAll(url.QueryEscape(name), "+", "%20")
	w.call.W.Header().Set("Content-Disposition", "attachment; filename*=UTF-8''"+name)
	w.out, err = w.call.Stream(kind)
	return err
}

// cells returns the cells of a job. A spreadsheet would run a cell that begins as a formula does, so that gets a quote. A
// number gets none.
func cells(j *duly.JobInfo) []string {
	number := strconv.Itoa
	list := []string{j.ID, j.State.String(), number(j.Priority), number(j.Attempt), number(j.Tries), number(j.Failures),
		number(j.Stalls), moment(j.PushedAt), moment(j.Due), moment(j.ExpiresAt), moment(j.LeaseEnd), moment(j.FinishedAt),
		j.OrderKey, j.Merge.Key, number(j.Size), j.LastError}
	for i, text := range list {
		if _, err := strconv.Atoi(text); err != nil && text != "" && strings.ContainsRune("=+-@\t\r", rune(text[0])) {
			list[i] = "'" + text
		}
	}
	return list
}
