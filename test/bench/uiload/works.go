package main

import (
	"context"
	"errors"
	"fmt"

	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// perRound is the number of requests of a round.
const perRound = 40

// work is one measurement.
type work struct {
	name string
	run  func(ctx context.Context, o *options) error
}

var works = []work{
	{"pages", pages}, {"many", many}, {"list", list}, {"groups", groups}, {"find", find}, {"viewers", viewers},
}

// report prints a line: what was measured, and its figures.
func (o *options) report(what, format string, figures ...any) {
	fmt.Fprintf(o.out, "%-34s %s\n", what, fmt.Sprintf(format, figures...))
}

// figures are medians over the rounds. The server looks at the queues at most once a second, for all pages. So fresh is
// the first request of a round, which waits for a look, and the others share it.
type figures struct {
	fresh, p50, p95 time.Duration // until the first byte
	size            int
}

// sample requests a page over and over.
func (o *options) sample(ctx context.Context, path string) (f figures, err error) {
	var fresh, middle, high []time.Duration
	for range o.rounds {
		var times []time.Duration
		if err := pause(ctx, o.interval); err != nil {
			return f, err
		}
		for range perRound {
			v, err := o.ui.get(ctx, path)
			if err != nil {
				return f, err
			}
			times, f.size = append(times, v.firstByte), v.size
		}
		fresh = append(fresh, times[0])
		times = times[1:]
		slices.Sort(times)
		middle, high = append(middle, times[len(times)/2]), append(high, times[len(times)*95/100])
	}
	f.fresh, f.p50, f.p95 = median(fresh), median(middle), median(high)
	return f, nil
}

// lookInterval is longer than the time for which pages share a look.
const lookInterval = 1100 * time.Millisecond

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

func ms(d time.Duration) string { return strconv.FormatFloat(d.Seconds()*1000, 'f', 1, 64) + " ms" }

// measure samples pages and prints a line for each.
func (o *options) measure(ctx context.Context, named [][2]string) error {
	for _, page := range named {
		f, err := o.sample(ctx, page[1])
		if err != nil {
			return err
		}
		o.report(page[0], "first byte %s with a look, p50 %s, p95 %s, %.1f KB", ms(f.fresh), ms(f.p50), ms(f.p95),
			float64(f.size)/1000)
	}
	return nil
}

// page returns the path of a page of the namespace.
func (o *options) page(parts string) string { return "/ui/n/" + url.PathEscape(o.namespace) + parts }

func pages(ctx context.Context, o *options) error {
	if err := queues(ctx, o, o.queues); err != nil {
		return err
	}
	queue := prefix + "00001"
	jobs, err := o.engine.List(ctx, duly.QueueRef{Namespace: o.namespace, Name: queue}, duly.ListParams{State: duly.StateReady})
	if err != nil {
		return err
	}
	if len(jobs.Jobs) == 0 {
		return fmt.Errorf("the queue %s has no ready job", queue)
	}
	return o.measure(ctx, [][2]string{
		{fmt.Sprintf("overview, %d queues", o.queues), o.page("")},
		{fmt.Sprintf("queues, %d queues", o.queues), o.page("/queues")},
		{"queue", o.page("/q/" + queue)},
		{"jobs of a state", o.page("/q/" + queue + "/ready")},
		{"job", o.page("/q/" + queue + "/j/" + jobs.Jobs[0].ID)},
		{fmt.Sprintf("dead letters, %d queues", o.queues), o.page("/dead")},
	})
}

// most is nearly the most queues of a namespace. The other works need some too.
const most = 9900

func many(ctx context.Context, o *options) error {
	if err := queues(ctx, o, most); err != nil {
		return err
	}
	return o.measure(ctx, [][2]string{
		{fmt.Sprintf("overview, %d queues", most), o.page("")},
		{fmt.Sprintf("queues, %d queues", most), o.page("/queues")},
	})
}

// list compares the first page of a long list with a page far behind it.
func list(ctx context.Context, o *options) error {
	const pageSize, far = 100, 10_000
	q := duly.QueueRef{Namespace: o.namespace, Name: prefix + "list"}
	err := pushAll(ctx, o.engine, o.jobs, func(int) duly.Job {
		return duly.Job{Namespace: q.Namespace, Queue: q.Name, Body: []byte(`{"order":17}`)}
	})
	if err != nil {
		return err
	}

	// The walk ends before the last page that has jobs.
	cursor, behind := "", 0
	for end := min(far, o.jobs/pageSize) - 1; behind < end; {
		limit := min(duly.MaxBatch, (end-behind)*pageSize)
		got, err := o.engine.List(ctx, q, duly.ListParams{
			State: duly.StateReady, PageParams: duly.PageParams{Cursor: cursor, Limit: limit},
		})
		if err != nil {
			return err
		}
		if got.Next == "" {
			return fmt.Errorf("the list ended after %d pages", behind+len(got.Jobs)/pageSize)
		}
		cursor, behind = got.Next, behind+len(got.Jobs)/pageSize
	}

	path := o.page("/q/" + q.Name + "/ready")
	first, err := o.sample(ctx, path)
	if err != nil {
		return err
	}
	last, err := o.sample(ctx, path+"?cursor="+url.QueryEscape(cursor))
	if err != nil {
		return err
	}
	o.report(fmt.Sprintf("list of %d jobs", o.jobs), "page 1 %s, page %d %s: %.2f", ms(first.p50), behind+1, ms(last.p50),
		float64(last.p50)/float64(first.p50))
	return nil
}

var groupsOf = regexp.MustCompile(`[?&;]fp=([0-9a-f]{12})`)

// groups measures the groups of failures, and pushes while the server walks over the dead jobs. Each round has a queue of
// its own, because the server counts the jobs of a queue only once.
func groups(ctx context.Context, o *options) error {
	var firsts, laters, alones, besides []time.Duration
	var ratios []float64
	found, requests := 0, 0
	for round := range o.rounds {
		queue := fmt.Sprint(prefix, "dead-", round)
		if err := die(ctx, o, queue, o.dead); err != nil {
			return err
		}
		alone, err := o.pushes(ctx, func(ctx context.Context) error { return pause(ctx, o.time) })
		if err != nil {
			return err
		}

		path := o.page("/q/" + queue + "/dead")
		var first time.Duration
		beside, err := o.pushes(ctx, func(ctx context.Context) (err error) {
			first, requests, err = o.wholeView(ctx, path)
			return err
		})
		if err != nil {
			return err
		}

		v, err := o.ui.get(ctx, path)
		if err != nil {
			return err
		}
		unique := map[string]bool{}
		for _, m := range groupsOf.FindAllStringSubmatch(v.text, -1) {
			unique[m[1]] = true
		}
		found = len(unique)
		firsts, laters = append(firsts, first), append(laters, v.firstByte)
		alones, besides = append(alones, alone), append(besides, beside)
		ratios = append(ratios, float64(beside)/float64(alone))
	}

	slices.Sort(ratios)
	o.report(fmt.Sprintf("groups of %d dead jobs", o.dead), "%d groups, first view %s in %d requests, later %s", found,
		ms(median(firsts)), requests, ms(median(laters)))
	o.report("push during the first view", "p99 %s, alone %s: %.2f", ms(median(besides)), ms(median(alones)),
		ratios[len(ratios)/2])
	return nil
}

// wholeView requests a page of groups until every dead job is counted. A request counts for a limited time, so that may
// take several.
func (o *options) wholeView(ctx context.Context, path string) (took time.Duration, requests int, err error) {
	start, examined := time.Now(), fmt.Sprintf("%d of %d examined", o.dead, o.dead)
	for ctx.Err() == nil {
		v, err := o.ui.get(ctx, path)
		if err != nil {
			return 0, 0, err
		}
		if requests++; strings.Contains(v.text, examined) {
			return time.Since(start), requests, nil
		}
	}
	return 0, 0, ctx.Err()
}

// pushes returns the p99 of pushes of single jobs while the function runs.
func (o *options) pushes(ctx context.Context, during func(context.Context) error) (time.Duration, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- during(ctx) }()

	var times []time.Duration
	for {
		select {
		case err := <-ended:
			if len(times) == 0 {
				return 0, errors.Join(err, errors.New("no job was pushed"))
			}
			slices.Sort(times)
			return times[len(times)*99/100], err
		default:
		}
		start := time.Now()
		err := pushAll(ctx, o.engine, 1, func(int) duly.Job {
			return duly.Job{Namespace: o.namespace, Queue: prefix + "push", Body: make([]byte, 100)}
		})
		if err != nil {
			return 0, err
		}
		times = append(times, time.Since(start))
	}
}

// find looks for an ID in all queues of the namespace.
func find(ctx context.Context, o *options) error {
	q := duly.QueueRef{Namespace: o.namespace, Name: prefix + "00001"}
	got, err := o.engine.List(ctx, q, duly.ListParams{State: duly.StateReady})
	if err != nil {
		return err
	}
	if len(got.Jobs) == 0 {
		return fmt.Errorf("the queue %s has no ready job; run the work pages first", q.Name)
	}

	var times []time.Duration
	finder := contract.FinderOf(o.engine)
	for range o.rounds * perRound {
		start := time.Now()
		if _, err := finder.Find(ctx, q.Namespace, got.Jobs[0].ID); err != nil {
			return err
		}
		times = append(times, time.Since(start))
	}
	o.report("find an ID", "p50 %s", ms(median(times)))
	return nil
}

// viewers holds open pages, half of them of all queues and half of one queue.
func viewers(ctx context.Context, o *options) error {
	if err := queues(ctx, o, 2); err != nil {
		return err
	}
	var events atomic.Int64
	ended := make(chan error, o.viewers)
	for i := range o.viewers {
		path := o.page("/queues")
		if i%2 == 1 {
			path = o.page("/q/" + prefix + "00001")
		}
		go func() { ended <- o.ui.view(ctx, path, &events) }()
	}
	var errs []error
	for range o.viewers {
		errs = append(errs, <-ended)
	}
	o.report(fmt.Sprintf("%d open pages", o.viewers), "received %d events", events.Load())
	return errors.Join(errs...)
}
