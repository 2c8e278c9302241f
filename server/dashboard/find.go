package dashboard

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/server/dashboard/feed"
	"github.com/dulymq/duly/server/dashboard/view"
	"github.com/dulymq/duly/server/failures"
	"github.com/dulymq/duly/server/route"
)

const (
	// maxFind is the length of a text to find, in bytes. maxHits bounds each list of results.
	maxFind, maxHits = 256, 50
	// maxKeyLooks is the number of queues in which one page looks for an order key.
	maxKeyLooks = 3
)

// find finds jobs by ID, queues, groups of failures, pages, and order keys after key:.
func (d *Dashboard) find(c *route.Call) error {
	text := strings.TrimSpace(c.Query("q"))
	if len(text) > maxFind {
		return contract.Invalid("q", "has %d bytes, may have %d", len(text), maxFind)
	}
	v := view.Page{
		Search: view.Search{To: path("n", c.Namespace, "find"), Label: "Find", Name: "q", Value: text},
		Notes:  []string{"Write the ID of a job, a part of the name of a queue or page, a word of an error, or key: and an order key."},
	}
	t := &target{queue: duly.QueueRef{Namespace: c.Namespace}, name: cmp.Or(text, "ID")}
	v.Frame = also(d.frame(c, "Find"), "job find "+shellWord(t.name), string(t.path("/v1/{namespace}/jobs/{name}")))
	if text == "" {
		return d.reply(c, http.StatusOK, "page.html", v)
	}

	look := d.feed.Look(c.Context(), contract.NamespaceOr(c.Namespace))
	if look.Err != nil {
		return look.Err
	}
	key, isKey := strings.CutPrefix(text, "key:")
	if isKey {
		if err := d.findKey(c, look, strings.TrimSpace(key), &v); err != nil {
			return err
		}
	} else {
		jobs, err := d.findJobs(c, text)
		if err != nil {
			return err
		}
		if len(jobs.Rows) == 1 {
			return seeOther(c, jobs.Rows[0][0].To)
		}
		v.Tables = []view.Table{jobs, findQueues(c.Namespace, look, text), d.findGroups(c.Namespace, text), findPages(&v.Frame, text)}
	}

	n := 0
	v.Tables = slices.DeleteFunc(v.Tables, func(t view.Table) bool { n += len(t.Rows); return len(t.Rows) == 0 })
	if v.Frame.Result = fmt.Sprintf("%d results.", n); n == 1 {
		v.Frame.Result = "1 result."
	}
	if look.Next != "" {
		v.Notes = append(v.Notes, fmt.Sprintf("Of the queues, the first %d are searched by name and key.", len(look.Queues)))
	}
	return d.reply(c, http.StatusOK, "page.html", v)
}

// findJobs returns the jobs with an ID in all queues.
func (d *Dashboard) findJobs(c *route.Call, id string) (view.Table, error) {
	t := view.Table{Title: "Jobs", Columns: []string{"Job", "Queue", "State"}}
	found, err := d.cfg.Finder.Find(c.Context(), c.Namespace, id)
	if errors.Is(err, duly.ErrNotFound) || errors.Is(err, duly.ErrInvalid) { // it may be another name
		return t, nil
	}
	for i := range found.Jobs {
		j := &found.Jobs[i]
		t.Rows = append(t.Rows, []view.Link{
			{Text: j.ID, To: queuePath(c.Namespace, j.Queue, "j", j.ID)}, {Text: j.Queue, To: queuePath(c.Namespace, j.Queue)},
			{Text: j.State.String()},
		})
	}
	return t, err
}

// findQueues returns the queues with a text in their names.
func findQueues(namespace string, look *feed.Look, text string) view.Table {
	t := view.Table{Title: "Queues", Columns: []string{"Queue"}}
	for i := range look.Queues {
		if name := look.Queues[i].Name; len(t.Rows) < maxHits && strings.Contains(strings.ToLower(name), strings.ToLower(text)) {
			t.Rows = append(t.Rows, []view.Link{{Text: name, To: queuePath(namespace, name)}})
		}
	}
	return t
}

// findGroups returns the groups of failures with a fingerprint, or with a text in their patterns. It knows the groups
// that somebody has looked at.
func (d *Dashboard) findGroups(namespace, text string) view.Table {
	t := view.Table{Title: "Dead letters, as counted last", Columns: []string{"Error", "Jobs"}}
	for _, g := range d.failures.Known(contract.NamespaceOr(namespace)).Groups {
		if len(t.Rows) < maxHits && (g.Fingerprint == text || strings.Contains(strings.ToLower(g.Pattern), strings.ToLower(text))) {
			to := withQuery(path("n", namespace, "dead"), "fp", g.Fingerprint)
			t.Rows = append(t.Rows, []view.Link{{Text: failures.FirstLine(g.Pattern), To: to}, {Text: strconv.FormatInt(g.Count, 10)}})
		}
	}
	return t
}

// findPages returns the pages of the navigation with a text in their names.
func findPages(f *view.Frame, text string) view.Table {
	t := view.Table{Title: "Pages", Columns: []string{"Page"}}
	for _, n := range f.Pages {
		if strings.Contains(strings.ToLower(n.Text), strings.ToLower(text)) {
			t.Rows = append(t.Rows, []view.Link{{Text: n.Text, To: n.To}})
		}
	}
	return t
}

// findKey adds the queues that have an order key. It looks into the queues with the most blocked jobs, and links to the
// same look into others.
func (d *Dashboard) findKey(c *route.Call, look *feed.Look, key string, v *view.Page) error {
	queues := slices.DeleteFunc(slices.Clone(look.Queues), func(q contract.QueueStats) bool {
		return q.Err != nil || q.Stats.Sizes.Blocked+q.Stats.Sizes.Leased+q.Stats.Sizes.Ready+q.Stats.Sizes.Delayed == 0
	})
	slices.SortStableFunc(queues, func(a, b contract.QueueStats) int {
		return cmp.Compare(b.Stats.Sizes.Blocked, a.Stats.Sizes.Blocked)
	})
	found := view.Table{Title: "Order keys", Columns: []string{"Key", "Queue", "Held by", "State", "Since or until", "Waiting",
		"First of them due"}}
	others := view.Table{Title: "Look for the key in another queue", Columns: []string{"Queue"}}
	for i := range queues {
		q := duly.QueueRef{Namespace: c.Namespace, Name: queues[i].Name}
		lane := lanePath(q, key)
		if i >= maxKeyLooks {
			if len(others.Rows) < maxHits {
				others.Rows = append(others.Rows, []view.Link{{Text: q.Name, To: lane.To}})
			}
			continue
		}
		k, err := d.cfg.KeyLister.Holder(c.Context(), q, key)
		if errors.Is(err, duly.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		found.Rows = append(found.Rows, append([]view.Link{lane, {Text: q.Name, To: queuePath(q.Namespace, q.Name)}},
			keyCells(q, &k, look.At)...))
	}
	v.Tables = []view.Table{found, others}
	return nil
}
