package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/worker"
)

// The queue of the reports, and the owner of their schedules.
const (
	queue = "reports"
	owner = "shop"
)

// sale is an amount at a time.
type sale struct {
	at    time.Time
	cents int
}

// Shop is in the place of a program's database.
type Shop struct {
	mu    sync.Mutex
	sales []sale
}

// Sell stores a sale.
func (s *Shop) Sell(at time.Time, cents int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sales = append(s.sales, sale{at, cents})
}

// between returns the number of the sales after from, up to and including to, and their sum.
func (s *Shop) between(from, to time.Time) (n, cents int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sale := range s.sales {
		if sale.at.After(from) && !sale.at.After(to) {
			n++
			cents += sale.cents
		}
	}
	return n, cents
}

// Report covers the sales of one interval.
type Report struct {
	From, To     time.Time // From is zero in the first report
	Sales, Cents int
}

// String returns the report in one line.
func (r Report) String() string {
	from := "the beginning"
	if !r.From.IsZero() {
		from = r.From.Format(time.DateTime)
	}
	return fmt.Sprintf("%s to %s: %d sales, %d.%02d", from, r.To.Format(time.DateTime), r.Sales, r.Cents/100, r.Cents%100)
}

// Reporter makes a report of each run of the schedule.
type Reporter struct {
	Shop    *Shop
	Publish func(Report) error
}

// Handle reports on the time since the last run. The headers of the run say which time that
// is, so a repeated or late run makes the same report.
func (r *Reporter) Handle(_ context.Context, d *worker.Delivery) error {
	var report Report
	var err error
	if report.To, err = time.Parse(time.RFC3339, d.Headers[duly.HeaderTick]); err != nil {
		// A retry can't repair the headers, so the job is buried at once.
		return worker.Bury(fmt.Errorf("the job is not the run of a tick: %w", err))
	}
	// The first run of a schedule has no previous one.
	if previous := d.Headers[duly.HeaderPrevious]; previous != "" {
		if report.From, err = time.Parse(time.RFC3339, previous); err != nil {
			return worker.Bury(err)
		}
	}

	report.Sales, report.Cents = r.Shop.between(report.From, report.To)
	return r.Publish(report)
}
