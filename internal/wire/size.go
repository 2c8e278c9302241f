package wire

import (
	"encoding/base64"

	"github.com/dulymq/duly"
)

// How long an answer becomes is told before it is written, so that memory for
// it can be asked for, and is asked for once. A short answer is estimated; only
// of a long one it is worth to look at every byte.

const (
	// sizeOfJob is what the names, numbers and moments of a job take.
	sizeOfJob = 640
	// escaped is the most bytes that one byte of a text becomes.
	escaped = 6
	// short is up to where an estimate will do.
	short = 64 << 10
)

// SizeOfDeliveries is no less than what AppendDeliveries adds, and not much more
// than that or 64 KiB.
func SizeOfDeliveries(deliveries []duly.Delivery) int {
	return size(func(s sizer) int {
		n := sizeOfJob
		for i := range deliveries {
			d := &deliveries[i]
			n += s.stored(&d.Job, true) + len(d.Receipt)
		}
		return n
	})
}

// SizeOfJobs is no less than what AppendJobs adds, and not much more than that
// or 64 KiB.
func SizeOfJobs(p duly.ListPage, bodies bool) int {
	return size(func(s sizer) int {
		n := sizeOfJob + len(p.Next)
		for i := range p.Jobs {
			n += s.info(&p.Jobs[i], bodies)
		}
		return n
	})
}

// SizeOfJob is no less than what AppendJob adds, and not much more than that or
// 64 KiB.
func SizeOfJob(j *duly.JobInfo) int {
	return size(func(s sizer) int { return s.info(j, true) })
}

// SizeOfEntries is no less than what AppendEntries adds, and not much more than
// that or 64 KiB.
func SizeOfEntries(p duly.ReadPage) int {
	return size(func(s sizer) int {
		n := sizeOfJob + len(p.Next)
		for i := range p.Entries {
			n += s.message(&p.Entries[i].Message, true)
		}
		return n
	})
}

// SizeOfDelayed is no less than what AppendDelayed adds, and not much more than
// that or 64 KiB.
func SizeOfDelayed(p duly.DelayedPage, bodies bool) int {
	return size(func(s sizer) int {
		n := sizeOfJob + len(p.Next)
		for i := range p.Messages {
			n += s.message(&p.Messages[i], bodies)
		}
		return n
	})
}

func size(of func(s sizer) int) int {
	n := of(sizer{})
	if n > short {
		n = of(sizer{exact: true})
	}
	return n
}

// sizer tells how long something is as JSON.
type sizer struct{ exact bool }

func (s sizer) info(j *duly.JobInfo, body bool) int {
	return s.stored(&j.Job, body) + escaped*len(j.LastError) + s.bytes(j.Result)
}

func (s sizer) stored(j *duly.Job, body bool) int {
	n := sizeOfJob + len(j.ID) + len(j.Queue) + len(j.Backoff) + escaped*(len(j.OrderKey)+len(j.Merge.Key)+len(j.Callback)+len(j.OnDone)+len(j.OnDead)) + s.headers(j.Headers)
	if body {
		n += s.bytes(j.Body)
	}
	return n
}

// message is a message, which has fewer names than a job.
func (s sizer) message(m *duly.Message, body bool) int {
	n := sizeOfJob/2 + len(m.ID) + escaped*len(m.Key) + s.headers(m.Headers)
	if body {
		n += s.bytes(m.Body)
	}
	return n
}

func (s sizer) headers(headers map[string]string) (n int) {
	for name, value := range headers {
		n += len(`"":"",`) + len(name) + s.text([]byte(value))
	}
	return n
}

// bytes are text, or else base64.
func (s sizer) bytes(b []byte) int {
	if s.exact && !printable(b) {
		return base64.StdEncoding.EncodedLen(len(b))
	}
	return s.text(b)
}

func (s sizer) text(b []byte) int {
	if !s.exact {
		return escaped * len(b)
	}
	n := len(b)
	for _, c := range b {
		switch {
		case c == '"', c == '\\', c == '\n', c == '\r', c == '\t':
			n++
		case c < 0x20, c == 0x7f:
			n += escaped - 1
		}
	}
	return n
}
