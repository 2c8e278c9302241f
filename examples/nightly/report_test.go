package main

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/dulytest"
	"github.com/dulymq/duly/open"
	"github.com/dulymq/duly/worker"
)

// reporter returns an engine with the schedule of 02:30 in New York at noon of a day, and the
// shop that its worker reports on.
func reporter(t *testing.T, publish func(Report) error) (*dulytest.Engine, *Shop) {
	t.Helper()
	newYork, err := time.LoadLocation("America/New_York")
	if err != nil {
		t.Fatal(err)
	}
	e := dulytest.New(t)
	e.Advance(time.Date(2030, time.March, 8, 12, 0, 0, 0, newYork).Sub(e.Clock.Now()))
	if err := Deploy(t.Context(), e, "30 2 * * *", newYork.String()); err != nil {
		t.Fatal(err)
	}

	shop := &Shop{}
	w := worker.New(e, worker.Config{Logger: slog.New(slog.DiscardHandler)})
	w.Handle(queue, (&Reporter{Shop: shop, Publish: publish}).Handle)
	e.Start(w)
	return e, shop
}

// A sale at a quarter past each hour, over the night in which the clocks go forward.
func TestReportsCoverAllSales(t *testing.T) {
	t.Parallel()
	var reports []string
	e, shop := reporter(t, func(r Report) error {
		reports = append(reports, r.String())
		return nil
	})
	e.Advance(15 * time.Minute)
	for range 72 {
		shop.Sell(e.Clock.Now(), 100)
		e.Advance(time.Hour)
	}
	want := []string{
		"the beginning to 2030-03-09 07:30:00: 15 sales, 15.00",
		"2030-03-09 07:30:00 to 2030-03-10 07:00:00: 23 sales, 23.00",
		"2030-03-10 07:00:00 to 2030-03-11 06:30:00: 24 sales, 24.00",
	}
	if !slices.Equal(reports, want) {
		t.Errorf("the reports are\n%s\nwant\n%s", strings.Join(reports, "\n"), strings.Join(want, "\n"))
	}
}

// The mail server is down for a night. The report comes later and is the same.
func TestFailedReportIsRepeated(t *testing.T) {
	t.Parallel()
	down := true
	var reports []Report
	e, _ := reporter(t, func(r Report) error {
		if down {
			return errors.New("the mail server is down")
		}
		reports = append(reports, r)
		return nil
	})
	e.Advance(15 * time.Hour)
	if len(reports) != 0 {
		t.Fatalf("reports while the mail server is down: %v", reports)
	}
	down = false
	e.Advance(10 * time.Minute)
	if len(reports) != 1 || reports[0].To.Format(time.TimeOnly) != "07:30:00" {
		t.Errorf("the reports are %v", reports)
	}
}

func TestDeployKeepsTheNextTickAndDeletesOldSchedules(t *testing.T) {
	t.Parallel()
	e, _ := reporter(t, func(Report) error { return nil })
	ref := duly.Q(queue)
	for _, s := range []duly.Schedule{
		{Name: "costs", Spec: "@daily", Owner: owner}, {Name: "stock", Spec: "@daily", Owner: "warehouse"},
	} {
		if _, err := e.PutSchedule(t.Context(), ref, s); err != nil {
			t.Fatal(err)
		}
	}
	before, err := e.GetSchedule(t.Context(), ref, "sales")
	if err != nil {
		t.Fatal(err)
	}

	e.Advance(time.Hour)
	if err := Deploy(t.Context(), e, "30 2 * * *", "America/New_York"); err != nil {
		t.Fatal(err)
	}
	page, err := e.Schedules(t.Context(), ref, duly.PageParams{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range page.Schedules {
		if names = append(names, s.Name); s.Name == "sales" && (s.Next != before.Next || s.Version != before.Version) {
			t.Errorf("the deployment has changed the schedule from %+v to %+v", before, s)
		}
	}
	if slices.Sort(names); !slices.Equal(names, []string{"sales", "stock"}) {
		t.Errorf("the schedules are %q", names)
	}
}

func TestProgramOnAFile(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	url := open.File(filepath.Join(t.TempDir(), "reports.db"))
	if err := run(t.Context(), []string{"--url", url, "--spec", "* * * * * *", "--reports", "1"}, &out); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	if !strings.HasPrefix(text, "the beginning to ") || !strings.HasSuffix(text, ": 3 sales, 144.49\n") {
		t.Errorf("the program says %q", text)
	}
}

func TestProgramRefusesABadExpression(t *testing.T) {
	t.Parallel()
	url := open.File(filepath.Join(t.TempDir(), "reports.db"))
	err := run(t.Context(), []string{"--url", url, "--spec", "25 * * *"}, io.Discard)
	if !errors.Is(err, duly.ErrInvalid) {
		t.Errorf("%v", err)
	}
}
