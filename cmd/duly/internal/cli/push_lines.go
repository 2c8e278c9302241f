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
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/wire"
)

// lineCounts counts the results of lines.
type lineCounts struct {
	lines, created, merged, exists, failed int64

	lastErr  error // error of the last refused line
	lastLine int64
}

// maxShownErrors is the number of refused lines whose errors are printed. If one line is
// refused, for example because the queue is full, thousands usually are.
const maxShownErrors = 10

func (c *lineCounts) String() string {
	text := fmt.Sprintf("%s: %s created", plural(c.lines, "line"), countText(c.created))
	for _, more := range []struct {
		n    int64
		what string
	}{{c.merged, "merged"}, {c.exists, "existed"}, {c.failed, "failed"}} {
		if more.n > 0 {
			text += fmt.Sprintf(", %s %s", countText(more.n), more.what)
		}
	}
	return text
}

// checkLines returns an error if --lines is used together with a body or an ID. noun is
// the product of a line: a job or a message.
func checkLines(body []string, id, noun string) error {
	if len(body) > 0 && body[0] != "-" {
		return usageErrorf("--lines reads the bodies from standard input; leave %q out", body[0])
	}
	if id != "" {
		return usageErrorf("--id names one %s, but with --lines every line is a %s; leave it out", noun, noun)
	}
	return nil
}

// lineSender sends batches of lines.
type lineSender struct {
	// send returns a result for each line, also as the JSON of the HTTP API.
	send func(ctx context.Context, bodies [][]byte) (results []duly.PushResult, json []byte, err error)
	// withHint adds a hint to the error of a line. It may be nil.
	withHint func(error) error
	// done is called after the last line. It may be nil.
	done func(*lineCounts)
}

// pushLines pushes one job per line.
func (a *app) pushLines(ctx context.Context, p *printer, like duly.Job) error {
	return a.sendLines(ctx, p, func(s *session) (lineSender, error) {
		// The client repeats calls that may not have arrived, with the same IDs.
		client := a.client(s)
		send := func(ctx context.Context, bodies [][]byte) ([]duly.PushResult, []byte, error) {
			jobs := make([]duly.Job, len(bodies))
			for i, body := range bodies {
				jobs[i] = like
				jobs[i].Body = body
			}
			results, err := client.PushMany(ctx, jobs)
			return results, wire.PushedForm.Append(nil, results), err
		}
		return lineSender{
			send:     send,
			withHint: func(err error) error { return a.withFullHint(ctx, s, err, like.Queue) },
			done:     func(c *lineCounts) { a.noteIfCreated(ctx, s, like.Queue, c.created+c.merged) },
		}, nil
	})
}

// sendLines sends every line of standard input. It prints the first errors of single lines
// and continues. The error of a whole batch ends the command and says how many lines were
// sent.
func (a *app) sendLines(ctx context.Context, p *printer, open func(*session) (lineSender, error)) error {
	var counts lineCounts
	err := a.withNewEngine(ctx, func(s *session) error {
		sender, err := open(s)
		if err != nil {
			return err
		}
		in := newLineReader(a.env.Stdin)
		defer in.stop()
		bar := a.newProgress("push", inputSize(a.env.Stdin))
		defer bar.end()

		err = a.sendBatches(ctx, p, &sender, in, bar, &counts)

		// The last error is printed also after a failed batch, because it may explain the failure.
		a.printLastError(&sender, &counts)
		if err == nil && sender.done != nil {
			sender.done(&counts)
		}
		return err
	})

	// A signal ends the input early, which the command must not report as success.
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		hint := "push the rest: tail -n +%d"
		// It is unknown whether the last batch has arrived.
		if errors.Is(err, duly.ErrUnavailable) {
			hint = "the next lines, up to 1000, may be sent too; push the rest, some lines perhaps twice: tail -n +%d"
		}
		return withHint(fmt.Errorf("stopped after %s: %w", counts.String(), err), hint, counts.lines+1)
	}
	if !p.json {
		p.printf("%s\n", counts.String())
	}

	// The errors of single lines are on standard error already.
	if counts.failed > 0 {
		return errReported
	}
	return nil
}

func (a *app) sendBatches(
	ctx context.Context, p *printer, sender *lineSender, in *lineReader, bar *progress, counts *lineCounts,
) error {
	for {
		bodies, err := in.next(ctx)
		if err != nil || len(bodies) == 0 {
			return err
		}
		read := int64(0)
		for _, body := range bodies {
			read += int64(len(body)) + 1
		}

		// A signal does not interrupt the batch in flight.
		results, json, err := sender.send(context.WithoutCancel(ctx), bodies)
		if err != nil {
			return err
		}
		a.countResults(counts, results)

		// The bar counts bytes of input, but people want to see lines.
		bar.add(read, counts.lines)
		if p.json {
			p.lines(json)
			if err := p.flush(); err != nil {
				return err
			}
		}
	}
}

// countResults counts results and prints the first errors.
func (a *app) countResults(c *lineCounts, results []duly.PushResult) {
	for _, r := range results {
		c.lines++
		switch {
		case r.Err != nil:
			c.failed++
			// A million refused lines must not fill the terminal.
			if c.lastErr, c.lastLine = r.Err, c.lines; c.failed <= maxShownErrors {
				a.printError(duly.CodeOf(r.Err), fmt.Errorf("line %d: %w", c.lines, r.Err), "")
			}
		case r.Status == duly.Merged:
			c.merged++
		case r.Status == duly.Exists:
			c.exists++
		default:
			c.created++
		}
	}
}

// printLastError prints the error of the last refused line and the number of errors that
// were not printed, if there are any.
func (a *app) printLastError(sender *lineSender, c *lineCounts) {
	if c.failed <= maxShownErrors {
		return
	}
	code, err := duly.CodeOf(c.lastErr), fmt.Errorf("line %d: %w", c.lastLine, c.lastErr)
	if hidden := c.failed - maxShownErrors - 1; hidden > 0 {
		err = fmt.Errorf("%w; and %s before it that are not shown, --json prints all results",
			err, plural(hidden, "more line"))
	}
	last := c.lastErr
	if sender.withHint != nil {
		last = sender.withHint(last)
	}
	a.printError(code, err, a.hint(nil, code, last))
}

// lineReader collects lines while a batch is in flight, up to the limits of one call.
type lineReader struct {
	mu      sync.Mutex
	room    sync.Cond // signals that lines were taken, or the end of the reader
	lines   [][]byte
	size    int
	err     error // io.EOF at the end of the input
	stopped bool

	ready chan struct{} // has a value if there may be lines or an error
}

func newLineReader(in io.Reader) *lineReader {
	r := &lineReader{ready: make(chan struct{}, 1)}
	r.room.L = &r.mu
	go r.read(in)
	return r
}

func (r *lineReader) read(in io.Reader) {
	scan := bufio.NewScanner(in)
	// Two bytes more are for the end of a line.
	scan.Buffer(make([]byte, 64<<10), duly.MaxMaxBody+2)
	for scan.Scan() {
		if !r.put(bytes.Clone(scan.Bytes())) {
			return
		}
	}

	err := scan.Err()
	if errors.Is(err, bufio.ErrTooLong) {
		err = contract.TooLarge("line", "has more than %d bytes", duly.MaxMaxBody)
	}
	// The scanner returns nil at the end of the input. io.EOF distinguishes that from an input with more lines.
	if err == nil {
		err = io.EOF
	}
	r.mu.Lock()
	r.err = err
	r.mu.Unlock()
	r.wake()
}

// put waits for room and adds a line. It returns false after stop.
func (r *lineReader) put(line []byte) bool {
	r.mu.Lock()
	isFull := func() bool {
		// A single line larger than a batch is still taken, and refused by the engine.
		return len(r.lines) >= duly.MaxBatch || len(r.lines) > 0 && r.size+len(line) > duly.MaxBatchBytes
	}
	for !r.stopped && isFull() {
		r.room.Wait()
	}
	r.lines = append(r.lines, line)
	r.size += len(line)
	stopped := r.stopped
	r.mu.Unlock()
	r.wake()
	return !stopped
}

func (r *lineReader) wake() {
	// One pending signal is enough, because next takes all lines in one call.
	select {
	case r.ready <- struct{}{}:
	default:
	}
}

// next waits for lines and returns all of them. It returns none at the end of the input
// and after ctx has ended.
func (r *lineReader) next(ctx context.Context) ([][]byte, error) {
	for {
		if ctx.Err() != nil {
			return nil, nil
		}
		r.mu.Lock()
		lines, err := r.lines, r.err
		// The caller takes all lines that are there, so a slow input makes small batches.
		r.lines, r.size = nil, 0
		r.room.Signal()
		r.mu.Unlock()

		switch {
		// Lines come before the error, so that the lines in front of a bad one are sent.
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

// stop ends the reading goroutine at its next line.
func (r *lineReader) stop() {
	r.mu.Lock()
	r.stopped = true

	// The reader may be waiting for room that nobody will make any more.
	r.room.Signal()
	r.mu.Unlock()
}
