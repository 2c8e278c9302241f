package cli

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/dulymq/duly"
)

// C15.62: --dry-run prints what queue set would do, and changes nothing.
func TestQueueSetDryRun(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for range 4 {
		r.ok("push", "q", "x")
	}
	if ds, err := r.engine.Reserve(t.Context(), duly.ReserveParams{Queues: []string{"q"}, Max: 3}); err != nil || len(ds) != 3 {
		t.Fatal(ds, err)
	}

	before, err := r.engine.Config(t.Context(), duly.Q("q"))
	if err != nil {
		t.Fatal(err)
	}
	out := r.ok("queue", "set", "q", "--max-leased", "2", "--tries", "3", "--dry-run")
	for _, want := range []string{
		"SETTING", "defaults.tries  16    3", "max_leased      none  2",
		"3 jobs are leased now and max_leased is 2: no job is reserved before 2 leases have ended.",
		"The defaults are for jobs that are pushed from now on.",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the plan lacks %q:\n%s", want, out)
		}
	}

	var v plannedView
	text := r.ok("queue", "set", "q", "--max-leased", "2", "--dry-run", "--json")
	if err := json.Unmarshal([]byte(text), &v); err != nil || v.Queue != "q" || v.Creates || len(v.Effects) != 1 ||
		!slices.Equal(v.Changes, []changeView{{"max_leased", "none", "2"}}) {
		t.Errorf("the JSON is %s, %v", text, err)
	}
	if out := r.ok("queue", "set", "q", "--tries", "16", "--dry-run"); out != "The queue has these settings.\n" {
		t.Errorf("the plan of no change is %q", out)
	}
	if after, err := r.engine.Config(t.Context(), duly.Q("q")); err != nil || after != before {
		t.Errorf("the plans changed the queue to %+v, %v", after, err)
	}

	// A plan creates no queue, and is refused like the change.
	if out := r.ok("queue", "set", "new", "--tries", "3", "--dry-run"); !strings.Contains(out, "this creates it") {
		t.Errorf("the plan for a new queue is %q", out)
	}
	if page, err := r.engine.Queues(t.Context(), "", duly.PageParams{}); err != nil || !slices.Equal(page.Names, []string{"q"}) {
		t.Errorf("the queues are %v, %v", page.Names, err)
	}
	for _, args := range []string{
		"queue set q --dry-run", "queue set q --burst 5 --dry-run", "queue set q --adapt 0.5 --dry-run",
		"queue set q --delivery push --dry-run", "queue set events@none --max-leased 3 --dry-run",
	} {
		plan, _, errs := r.run(strings.Fields(args)...)
		change, _, want := r.run(strings.Fields(strings.TrimSuffix(args, " --dry-run"))...)
		if plan == 0 || plan != change || errs != want {
			t.Errorf("%s: exit %d, %s; the change: exit %d, %s", args, plan, errs, change, want)
		}
	}
	if _, err := r.engine.Get(t.Context(), duly.Q("new"), "x"); !errors.Is(err, duly.ErrNotFound) {
		t.Error(err)
	}
}
