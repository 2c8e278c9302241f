package dashboard

import (
	"net/http"
	"strconv"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/server/dashboard/render"
	"github.com/dulymq/duly/server/dashboard/view"
	"github.com/dulymq/duly/server/route"
)

// keysPerPage is the number of order keys of a list.
const keysPerPage = 100

// lanePath returns the page of an order key.
func lanePath(q duly.QueueRef, key string) view.Link {
	return view.Link{Text: key, To: withQuery(queuePath(q.Namespace, q.Name, "keys"), "key", key)}
}

// keysRoute returns the route of the API for the order keys of a queue.
func keysRoute(q duly.QueueRef) render.Path { return (&target{queue: q}).path(ofQueue.api + "/keys") }

// keys lists the order keys of a queue for which jobs wait, or shows one of them.
func (d *Dashboard) keys(c *route.Call) error {
	q, now := queueOf(c), d.cfg.Clock.Now()
	if key := c.Query("key"); key != "" {
		return d.lane(c, q, key)
	}
	prefix, cursor, here := c.Query("prefix"), c.Query("cursor"), queuePath(q.Namespace, q.Name, "keys")
	page, err := d.cfg.KeyLister.Keys(c.Context(), q, contract.KeysParams{
		Prefix: prefix, PageParams: duly.PageParams{Cursor: cursor, Limit: keysPerPage},
	})
	if err != nil {
		return err
	}

	table := view.Table{Title: "Keys for which jobs wait", Columns: []string{"Key", "Held by", "State", "Since or until", "Waiting",
		"First of them due"}, Empty: "No job waits for such a key."}
	for i := range page.Keys {
		k := &page.Keys[i]
		table.Rows = append(table.Rows, append([]view.Link{lanePath(q, k.Key)}, keyCells(q, k, now)...))
	}
	v := view.Page{
		Up: view.Link{Text: "Queue " + q.Name, To: queuePath(q.Namespace, q.Name)}, Tables: []view.Table{table},
		Search: view.Search{To: here, Label: "Keys that begin with", Name: "prefix", Value: prefix},
	}
	if cursor != "" {
		v.First = withQuery(here, "prefix", prefix)
	}
	if page.Next != "" {
		v.Next = withQuery(here, "prefix", prefix, "cursor", page.Next)
	}
	command := "key list " + q.Name
	if prefix != "" {
		command += " --prefix " + shellWord(prefix)
	}
	v.Frame = also(d.frame(c, "Order keys of "+q.Name), command,
		string(withQuery(keysRoute(q), "prefix", prefix)))
	return d.reply(c, http.StatusOK, "page.html", v)
}

// keyCells describes the head of a key and the jobs that wait for it.
func keyCells(q duly.QueueRef, k *contract.KeyInfo, now time.Time) []view.Link {
	head, state, at := view.Link{Text: "nobody until the next step"}, "", k.Head.Due
	if k.Head.ID != "" {
		head = view.Link{Text: k.Head.ID, To: queuePath(q.Namespace, q.Name, "j", k.Head.ID)}
		state = k.Head.State.String()
	}
	if !k.Head.LeaseEnd.IsZero() {
		at = k.Head.LeaseEnd
	}
	waiting := strconv.Itoa(k.Waiting)
	if k.More {
		waiting = "more than " + waiting
	}
	return append([]view.Link{head}, texts(state, since(at, now), waiting, since(k.FirstDue, now))...)
}

// lane shows the job that holds an order key, and the jobs that wait for it, in the order in which they take the key.
func (d *Dashboard) lane(c *route.Call, q duly.QueueRef, key string) error {
	cursor, now, here := c.Query("cursor"), d.cfg.Clock.Now(), lanePath(q, key).To
	k, err := d.cfg.KeyLister.Holder(c.Context(), q, key)
	if err != nil {
		return err
	}
	jobs, err := d.cfg.Engine.List(c.Context(), q, duly.ListParams{
		State: duly.StateBlocked, Key: key, PageParams: duly.PageParams{Cursor: cursor, Limit: jobsPerPage},
	})
	if err != nil {
		return err
	}

	head := view.Table{Title: "The key", Columns: []string{"Held by", "State", "Since or until", "Waiting", "First of them due"},
		Rows: [][]view.Link{keyCells(q, &k, now)}}
	lane := view.Table{Title: "Waiting jobs, in the order in which they take the key",
		Columns: []string{"Job", "Due", "Pushed", "Priority", "Attempt"}, Empty: "No job waits."}
	for i := range jobs.Jobs {
		j := &jobs.Jobs[i]
		lane.Rows = append(lane.Rows, append([]view.Link{{Text: j.ID, To: queuePath(q.Namespace, q.Name, "j", j.ID)}},
			texts(since(j.Due, now), since(j.PushedAt, now), strconv.Itoa(j.Priority),
				strconv.Itoa(j.Attempt)+" of "+strconv.Itoa(j.Tries))...))
	}
	v := view.Page{
		Up:     view.Link{Text: "Order keys of " + q.Name, To: queuePath(q.Namespace, q.Name, "keys")},
		Tables: []view.Table{head, lane},
	}
	if k.Head.ID != "" {
		texts := [3]string{"Run the first job now", "", "Delete the first job …"}
		v.Buttons = d.jobButtons(c, k.Head.State, texts, "job", "", k.Head.ID)
	}
	if cursor != "" {
		v.First = here
	}
	if jobs.Next != "" {
		v.Next = withQuery(here, "cursor", jobs.Next)
	}
	v.Frame = also(d.frame(c, key), "key get "+q.Name+" "+shellWord(key), string(withQuery(keysRoute(q), "key", key)))
	return d.reply(c, http.StatusOK, "page.html", v)
}

// texts returns cells without links.
func texts(list ...string) (cells []view.Link) {
	for _, text := range list {
		cells = append(cells, view.Link{Text: text})
	}
	return cells
}
