package sqliteengine

import (
	"fmt"
	"slices"
	"testing"

	"github.com/dulymq/duly"
)

// C4.49, C4.51: unreadable rows do not end a list.
func TestListSkipsDamagedRows(t *testing.T) {
	t.Parallel()
	e := openNew(t)
	for i := range 9 {
		pushOne(t, e, duly.Job{ID: fmt.Sprintf("j%d", i)})
	}

	ask(t, e, `UPDATE jobs SET rules = x'ffffff' WHERE number IN
		(SELECT number FROM aliases WHERE id IN ('j0', 'j3', 'j4', 'j8'))`)
	for n := 2; n < 24; n++ {
		var listed []string
		limit, newest := n/2, n%2 == 1
		p := duly.ListParams{State: duly.StateReady, Newest: newest, PageParams: duly.PageParams{Limit: limit}}
		for {
			page, err := e.List(t.Context(), duly.Q("q"), p)
			if err != nil || len(page.Jobs) > limit {
				t.Fatal(page, err)
			}
			for _, j := range page.Jobs {
				listed = append(listed, j.ID)
			}
			if p.Cursor = page.Next; p.Cursor == "" {
				break
			}
		}
		if newest {
			slices.Reverse(listed)
		}
		sameIDs(t, listed, "j1", "j2", "j5", "j6", "j7")
	}
}
