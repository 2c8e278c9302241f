package sqliteengine

import (
	"testing"

	"github.com/dulymq/duly"
)

// Fault P6: an unreadable row becomes a dead letter, and other jobs are delivered.
func TestUnreadableRowIsADeadLetter(t *testing.T) {
	t.Parallel()
	e := openNew(t)
	ctx := t.Context()
	for _, id := range []string{"a", "b", "c"} {
		if _, err := e.Push(ctx, []duly.Job{{ID: id, Queue: "q", Body: []byte(id)}}); err != nil {
			t.Fatal(err)
		}
	}

	err := e.change(ctx, func(t *tx) error {
		return t.Exec("UPDATE jobs SET rules = x'ffff' WHERE number = (SELECT number FROM aliases WHERE id = 'b')")
	})
	if err != nil {
		t.Fatal(err)
	}

	got, err := e.Reserve(ctx, duly.ReserveParams{Queues: []string{"q"}, Max: 10})
	if err != nil || len(got) != 2 || got[0].ID != "a" || got[1].ID != "c" {
		t.Fatalf("%d jobs are delivered, %v", len(got), err)
	}

	page, err := e.List(ctx, duly.Q("q"), duly.ListParams{State: duly.StateDead, Bodies: true})
	if err != nil || len(page.Jobs) != 1 || string(page.Jobs[0].Body) != "b" || page.Jobs[0].LastError == "" {
		t.Errorf("the dead jobs are %+v, %v", page.Jobs, err)
	}

	stats, err := e.Stats(ctx, duly.Q("q"))
	if err != nil || stats.Sizes != (duly.Sizes{Leased: 2, Dead: 1}) {
		t.Errorf("the sizes are %+v, %v", stats.Sizes, err)
	}
}
