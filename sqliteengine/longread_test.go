package sqliteengine

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
)

// Fault R9: long reads leave at least half of the processors and one connection to other calls.
func TestLongReadsLeaveProcessors(t *testing.T) {
	t.Parallel()
	for processors, want := range map[int]int{1: 1, 2: 1, 3: 1, 4: 2, 6: 3, 64: 3} {
		if got := cap(newLongReads(clock.NewFake(), processors).tokens); got != want {
			t.Errorf("%d long reads on %d processors, want %d", got, processors, want)
		}
	}
	if maxLongReads >= maxReaders {
		t.Errorf("%d long reads may take all of %d readers", maxLongReads, maxReaders)
	}
}

// longReading returns an engine that allows one long read and measures pauses with a test clock.
func longReading(t *testing.T) (*Engine, *clock.Fake) {
	t.Helper()
	e, c := openNew(t), clock.NewFake()
	e.readers.long = newLongReads(c, 1)
	return e, c
}

// tokenIsFree fails the test if a long read or a checkpoint would wait.
func tokenIsFree(t *testing.T, e *Engine) {
	t.Helper()
	if n := len(e.readers.long.tokens); n > 0 {
		t.Errorf("%d tokens are taken", n)
	}
	e.readers.gate.close(time.Hour, func() {})
	defer e.readers.gate.open()
	if e.readers.gate.busy() {
		t.Error("a read is inside the gate")
	}
}

// Long reads run in the order of their calls. A long read whose caller leaves while it waits
// does not run.
func TestLongReadsWaitInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, _ := longReading(t)
		held, ended := make(chan bool), make(chan error, 4)
		var order []int
		read := func(ctx context.Context, i int) {
			go func() {
				ended <- e.readLong(ctx, func(*conn, *readSlice) (bool, error) {
					if order = append(order, i); i == 0 {
						<-held
					}
					return false, nil
				})
			}()
			synctest.Wait()
		}
		read(t.Context(), 0)
		ctx, leave := context.WithCancel(t.Context())
		read(ctx, 1)
		read(t.Context(), 2)
		read(t.Context(), 3)

		leave()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the read whose caller has left ended with %v", err)
		}
		close(held)
		if err := errors.Join(<-ended, <-ended, <-ended); err != nil {
			t.Error(err)
		}
		if !slices.Equal(order, []int{0, 2, 3}) {
			t.Errorf("the reads ran in the order %v", order)
		}
		tokenIsFree(t, e)
	})
}

// A long read that fails or panics releases everything that it took.
func TestFailedLongReadReturnsItsToken(t *testing.T) {
	t.Parallel()
	e, _ := longReading(t)
	broken, later := errors.New("broken"), false
	for name, f := range map[string]func(*conn, *readSlice) (bool, error){
		"an error": func(*conn, *readSlice) (bool, error) { return true, broken },
		"an error of a row": func(c *conn, _ *readSlice) (bool, error) {
			_, err := c.Query("SELECT nothing")
			return true, err
		},
		"a panic":          func(*conn, *readSlice) (bool, error) { panic(broken) },
		"a panic in a row": func(c *conn, _ *readSlice) (bool, error) { c.stmt("queue_names").Step(); panic(broken) },
		"a panic in the second slice": func(*conn, *readSlice) (bool, error) {
			if later {
				panic(broken)
			}
			later = true
			return true, nil
		},
	} {
		failed := func() (failed bool) {
			defer func() { failed = failed || recover() != nil }()
			return e.readLong(t.Context(), f) != nil
		}()
		if !failed {
			t.Errorf("%s: the read did not fail", name)
		}

		tokenIsFree(t, e)
		if n := len(e.readers.inUse) + len(e.readers.slots); n > 0 {
			t.Errorf("%s: %d connections are lent", name, n)
		}
		if got := ids(t, e); len(got) > 0 {
			t.Errorf("%s: the next read found %v", name, got)
		}
	}
}

// Fault R9: a page ends its slice while callers write or a checkpoint waits, but not on an idle
// store.
func TestSliceEndsWhileCallersWrite(t *testing.T) {
	t.Parallel()
	c := clock.NewFake()
	l, g := newLongReads(c, 2), &gate{clock: c}
	begin := func() *readSlice { return &readSlice{long: l, gate: g, end: c.Mono() + sliceTime} }
	check := func(when string, s *readSlice, over, used bool) {
		t.Helper()
		if got := s.timeUp(); got != over || s.timeUsed != used {
			t.Errorf("%s: over %t, used %t, want %t, %t", when, got, s.timeUsed, over, used)
		}
	}

	s := begin()
	c.Advance(time.Hour)
	check("nobody ever wrote", s, false, false)

	l.writeBegins()
	s = begin()
	c.Advance(sliceTime - 1)
	check("before its time", s, false, false)
	c.Advance(1)
	check("while a transaction runs", s, true, true)

	l.writeEnds()
	s = begin()
	c.Advance(writesRecently - 1)
	check("soon after a transaction", s, true, true)
	s = begin()
	c.Advance(sliceTime)
	check("long after a transaction", s, false, false)

	g.close(time.Second, func() {})
	check("while a checkpoint waits", begin(), true, false)
	g.open()
}

// Between two slices, a long read pauses outside a transaction. A caller that leaves during the
// pause returns at once.
func TestLongReadRestsBetweenSlices(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, c := longReading(t)
		e.readers.long.writeBegins()
		slices, ended := 0, make(chan error, 1)
		read := func(ctx context.Context) {
			go func() {
				ended <- e.readLong(ctx, func(_ *conn, s *readSlice) (bool, error) {
					slices++
					c.Advance(sliceTime)
					return s.timeUp() && slices%3 > 0, nil
				})
			}()
			synctest.Wait()
		}
		read(t.Context())
		for want := 1; want < 3; want++ {
			c.Advance(restTime - 1)
			if synctest.Wait(); slices != want || len(ended) > 0 {
				t.Errorf("%d slices before the end of rest %d", slices, want)
			}
			e.readers.gate.close(time.Hour, func() {})
			if e.readers.gate.busy() {
				t.Error("the read rests in a transaction")
			}
			e.readers.gate.open()
			c.Advance(1)
			synctest.Wait()
		}
		if err := <-ended; err != nil || slices != 3 {
			t.Errorf("%d slices, the read ended with %v", slices, err)
		}

		ctx, leave := context.WithCancel(t.Context())
		read(ctx)
		leave()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the read whose caller has left ended with %v", err)
		}
		tokenIsFree(t, e)
	})
}

// C13.13: a resting page ends with the engine.
func TestLongReadEndsWithTheEngine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, c := longReading(t)
		e.readers.long.writeBegins()
		ended := make(chan error, 2)
		for range 2 { // one read pauses, the other waits for its token
			go func() {
				ended <- e.readLong(t.Context(), func(_ *conn, s *readSlice) (bool, error) {
					c.Advance(sliceTime)
					return s.timeUp(), nil
				})
			}()
		}

		synctest.Wait()
		if err := e.Close(); err != nil {
			t.Error(err)
		}

		for range 2 {
			if err := <-ended; !errors.Is(err, duly.ErrClosed) {
				t.Errorf("the read ended with %v", err)
			}
		}
	})
}

// C4.51, C4.7, C4.94: a page read row by row equals the page read in one piece, with any limit,
// bodies of all sizes and unreadable rows.
func TestPagesDoNotDependOnSlices(t *testing.T) {
	t.Parallel()
	whole, rows := openNew(t), openNew(t)
	rows.ReadRowByRow()
	jobs := make([]duly.Job, 30)
	for i := range jobs {
		jobs[i] = duly.Job{ID: fmt.Sprintf("j%02d", i), Queue: "q",
			Body: make([]byte, []int{0, 10, inlineBody, inlineBody + 1, 700_000}[i%5])}
	}
	for _, e := range []*Engine{whole, rows} {
		if _, err := e.Push(t.Context(), jobs); err != nil {
			t.Fatal(err)
		}
		for i := range 20 {
			if _, err := e.Push(t.Context(), []duly.Job{{Queue: fmt.Sprint("other", i)}}); err != nil {
				t.Fatal(err)
			}
		}
		ask(t, e, `UPDATE jobs SET rules = x'ffffff' WHERE number IN
			(SELECT number FROM jobs JOIN aliases USING (queue, number) WHERE id IN ('j00', 'j07', 'j08', 'j29'))`)
	}

	for _, limit := range []int{1, 3, 7, 25, 26, 100} {
		for _, bodies := range []bool{false, true} {
			p := duly.ListParams{State: duly.StateReady, Bodies: bodies, PageParams: duly.PageParams{Limit: limit}}
			p.Newest = limit%2 == 0
			want, got := walked(t, whole, p), walked(t, rows, p)
			if !reflect.DeepEqual(want, got) {
				t.Errorf("limit %d, bodies %t: the pages are %v, want %v", limit, bodies, got, want)
			}
			if n := len(slices.Concat(got...)); n != 26 {
				t.Errorf("limit %d, bodies %t: %d jobs are listed, want 26", limit, bodies, n)
			}
		}
		if want, got := surveyed(t, whole, limit), surveyed(t, rows, limit); !reflect.DeepEqual(want, got) {
			t.Errorf("limit %d: the survey's pages are %v, want %v", limit, got, want)
		}
	}
}

// walked returns the pages of a list, each with its jobs' IDs and sizes.
func walked(t *testing.T, e *Engine, p duly.ListParams) (pages [][]string) {
	t.Helper()
	for {
		page, err := e.List(t.Context(), duly.Q("q"), p)
		if err != nil {
			t.Fatal(err)
		}
		var jobs []string
		for _, j := range page.Jobs {
			jobs = append(jobs, fmt.Sprint(j.ID, " ", j.Size, " ", len(j.Body)))
		}
		pages = append(pages, jobs)
		if p.Cursor = page.Next; p.Cursor == "" {
			return pages
		}
	}
}

// surveyed returns the pages of a survey, each with its queues and their sizes.
func surveyed(t *testing.T, e *Engine, limit int) (pages [][]string) {
	t.Helper()
	p := duly.PageParams{Limit: limit}
	for {
		page, err := e.Survey(t.Context(), "", p)
		if err != nil {
			t.Fatal(err)
		}
		var queues []string
		for _, q := range page.Queues {
			queues = append(queues, fmt.Sprint(q.Name, " ", q.Stats.Sizes))
		}
		pages = append(pages, queues)
		if p.Cursor = page.Next; p.Cursor == "" {
			return pages
		}
	}
}

// A page ends without an error if its queue is destroyed between two slices.
func TestPageEndsIfItsQueueIsDestroyedMeanwhile(t *testing.T) {
	t.Parallel()
	e := openNew(t)
	for _, id := range []string{"a", "b"} {
		pushOne(t, e, duly.Job{ID: id})
	}
	l := listReader{p: &duly.ListParams{State: duly.StateReady, PageParams: duly.PageParams{Limit: 10}}}
	e.ReadRowByRow()
	err := e.onLongSnapshot(t.Context(), duly.Q("q"), func(tx readTx, q *queue, s *readSlice) (more bool, err error) {
		if more, err = l.read(tx, q, s); more {
			err = e.Destroy(t.Context(), duly.Q("q"))
		}
		return more, err
	})
	if err != nil || len(l.page.Jobs) != 1 || l.page.Next != "" {
		t.Errorf("the page is %+v, %v", l.page, err)
	}
}
