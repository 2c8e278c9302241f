package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/wire"
)

// tally counts what became of the lines.
type tally struct {
	lines, created, merged, exists, failed int64

	last     error // of the last line that was refused
	lastLine int64
}

// mostRefused is how many refused lines are told one by one: what refuses one
// line, as a queue at its bound, mostly refuses thousands.
const mostRefused = 10

func (t *tally) String() string {
	text := fmt.Sprintf("%s: %s created", plural(t.lines, "line"), countText(t.created))
	for _, more := range []struct {
		n    int64
		what string
	}{{t.merged, "merged"}, {t.exists, "existed"}, {t.failed, "failed"}} {
		if more.n > 0 {
			text += fmt.Sprintf(", %s %s", countText(more.n), more.what)
		}
	}
	return text
}

// checkLines returns the misuse of --lines together with a body or an ID. noun is what a
// line becomes.
func checkLines(body []string, id, noun string) error {
	if len(body) > 0 && body[0] != "-" {
		return misusef("--lines reads the bodies from standard input; leave %q out", body[0])
	}
	if id != "" {
		return misusef("--id names one %s; with --lines every line is a %s of its own", noun, noun)
	}
	return nil
}

// lineSender sends one batch of lines. It returns a result for each, also as the JSON
// of the HTTP API.
type lineSender func(ctx context.Context, bodies [][]byte) (results []duly.PushResult, json []byte, err error)

// pushLines pushes one job per line.
func (a *app) pushLines(ctx context.Context, p *printer, like duly.Job) error {
	return a.lines(ctx, p, func(s *session) (lineSender, error) {
		client := a.client(s)
		return func(ctx context.Context, bodies [][]byte) ([]duly.PushResult, []byte, error) {
			jobs := make([]duly.Job, len(bodies))
			for i, body := range bodies {
				jobs[i] = like
				jobs[i].Body = body
			}
			results, err := client.PushMany(ctx, jobs)
			return results, wire.PushedForm.Append(nil, results), err
		}, nil
	}, func(s *session, t *tally) { a.hintCreated(ctx, s, like.Queue, t.created+t.merged) })
}

// lines sends every line of standard input. It reports the first errors of single lines
// and continues with the others. An error of a whole batch ends the command, and says how
// far it had come. done, if set, is called after the last line.
func (a *app) lines(ctx context.Context, p *printer, open func(*session) (lineSender, error), done func(*session, *tally)) error {
	var t tally
	err := a.withNew(ctx, func(s *session) error {
		send, err := open(s)
		if err != nil {
			return err
		}
		in := readLines(a.env.Stdin)
		defer in.stop()
		bar := a.newProgress("push", inputSize(a.env.Stdin))
		defer bar.end()
		if err := a.sendBatches(ctx, p, send, in, bar, &t); err != nil {
			return err
		}
		if done != nil {
			done(s, &t)
		}
		return nil
	})
	if err == nil {
		err = ctx.Err()
	}
	a.moreRefused(&t)
	if err != nil {
		next := "push the rest: tail -n +%d"
		if errors.Is(err, duly.ErrUnavailable) {
			next = "of up to 1000 lines behind them it is not known; push the rest, some of it perhaps twice: tail -n +%d"
		}
		return advise(fmt.Errorf("stopped after %s: %w", t.String(), err), next, t.lines+1)
	}
	if !p.json {
		p.printf("%s\n", t.String())
	}
	if t.failed > 0 {
		return errReported
	}
	return nil
}

func (a *app) sendBatches(ctx context.Context, p *printer, send lineSender, in *lineReader, bar *progress, t *tally) error {
	for {
		bodies, err := in.next(ctx)
		if err != nil || len(bodies) == 0 {
			return err
		}
		read := int64(0)
		for _, body := range bodies {
			read += int64(len(body)) + 1
		}
		// The batch in flight is finished whatever signal comes.
		results, json, err := send(context.WithoutCancel(ctx), bodies)
		if err != nil {
			return err
		}
		a.count(t, results)
		bar.add(read, t.lines)
		if p.json {
			p.lines(json)
			if err := p.flush(); err != nil {
				return err
			}
		}
	}
}

func (a *app) count(t *tally, results []duly.PushResult) {
	for _, r := range results {
		t.lines++
		switch {
		case r.Err != nil:
			t.failed++
			if t.last, t.lastLine = r.Err, t.lines; t.failed <= mostRefused {
				a.complain(duly.CodeOf(r.Err), fmt.Errorf("line %d: %w", t.lines, r.Err), "")
			}
		case r.Outcome == duly.Merged:
			t.merged++
		case r.Outcome == duly.Exists:
			t.exists++
		default:
			t.created++
		}
	}
}

// moreRefused tells of the last refused line where not all were told one by one,
// and how many were not.
func (a *app) moreRefused(t *tally) {
	if t.failed <= mostRefused {
		return
	}
	code, err := duly.CodeOf(t.last), fmt.Errorf("line %d: %w", t.lastLine, t.last)
	if hidden := t.failed - mostRefused - 1; hidden > 0 {
		err = fmt.Errorf("%w; and %s before it that are not shown, --json has what became of each", err, plural(hidden, "more line"))
	}
	a.complain(code, err, a.next(nil, code, t.last))
}

// lineReader gathers lines while a batch is on its way: up to the bounds of
// one call, or as many as are there.
type lineReader struct {
	mu    sync.Mutex
	room  sync.Cond // signals that lines were taken, or the end
	lines [][]byte
	size  int
	err   error // io.EOF at the end of the input
	ended bool

	ready chan struct{} // holds a token when there is something to take
}

func readLines(in io.Reader) *lineReader {
	r := &lineReader{ready: make(chan struct{}, 1)}
	r.room.L = &r.mu
	go r.read(in)
	return r
}

func (r *lineReader) read(in io.Reader) {
	scan := bufio.NewScanner(in)
	scan.Buffer(make([]byte, 64<<10), duly.MaxMaxBody+2)
	for scan.Scan() {
		if !r.put(bytes.Clone(scan.Bytes())) {
			return
		}
	}
	err := scan.Err()
	if errors.Is(err, bufio.ErrTooLong) {
		err = duly.TooLarge("line", "has more than %d bytes", duly.MaxMaxBody)
	}
	if err == nil {
		err = io.EOF
	}
	r.mu.Lock()
	r.err = err
	r.mu.Unlock()
	r.wake()
}

// put waits for room and adds a line; false once nobody takes any more.
func (r *lineReader) put(line []byte) bool {
	r.mu.Lock()
	for !r.ended && len(r.lines) > 0 && (len(r.lines) >= duly.MaxBatch || r.size+len(line) > duly.MaxBatchBytes) {
		r.room.Wait()
	}
	r.lines = append(r.lines, line)
	r.size += len(line)
	ended := r.ended
	r.mu.Unlock()
	r.wake()
	return !ended
}

func (r *lineReader) wake() {
	select {
	case r.ready <- struct{}{}:
	default:
	}
}

// next takes what has gathered; nothing at the end of the input, or when ctx
// has ended.
func (r *lineReader) next(ctx context.Context) ([][]byte, error) {
	for {
		if ctx.Err() != nil {
			return nil, nil
		}
		r.mu.Lock()
		lines, err := r.lines, r.err
		r.lines, r.size = nil, 0
		r.room.Signal()
		r.mu.Unlock()
		switch {
		case len(lines) > 0:
			return lines, nil
		case errors.Is(err, io.EOF):
			return nil, nil
		case err != nil:
			return nil, err
		}
		select {
		case <-r.ready:
		case <-ctx.Done():
		}
	}
}

// stop lets the reading goroutine go at its next line.
func (r *lineReader) stop() {
	r.mu.Lock()
	r.ended = true
	r.room.Signal()
	r.mu.Unlock()
}
