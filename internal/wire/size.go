package wire

import (
	"encoding/base64"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// The size of an answer is computed before it is written, so that its memory is reserved and
// allocated once. For a short answer an estimate is used, because counting every byte is worth its
// cost only for a long answer.

const (
	// jobSize is an upper limit for the names, numbers and times of a job, in bytes.
	jobSize = 640
	// escaped is the largest number of bytes that one byte of text takes.
	escaped = 6
	// short is the largest estimate that is used as the size.
	short = 64 << 10
)

// SizeOfDeliveries returns at least the number of bytes that AppendDeliveries adds, and little more than
// that or 64 KiB.
func SizeOfDeliveries(deliveries []duly.Delivery) int {
	return size(func(s sizer) int {
		n := jobSize
		for i := range deliveries {
			d := &deliveries[i]
			n += s.stored(&d.Job, true) + len(d.Receipt)
		}
		return n
	})
}

// SizeOfJobs returns at least the number of bytes that AppendJobs adds, and little more than
// that or 64 KiB.
func SizeOfJobs(p duly.ListPage, bodies bool) int {
	return size(func(s sizer) int {
		n := jobSize + len(p.Next)
		for i := range p.Jobs {
			n += s.info(&p.Jobs[i], bodies)
		}
		return n
	})
}

// SizeOfGotJobs returns at least the number of bytes that AppendGotJobs adds, and little more than
// that or 64 KiB.
func SizeOfGotJobs(results []contract.JobResult, bodies bool) int {
	return size(func(s sizer) int {
		n := jobSize
		for i := range results {
			n += s.info(&results[i].Info, bodies)
		}
		return n
	})
}

// SizeOfJob returns at least the number of bytes that AppendJob adds, and little more than
// that or 64 KiB.
func SizeOfJob(j *duly.JobInfo) int {
	return size(func(s sizer) int { return s.info(j, true) })
}

// SizeOfEntries returns at least the number of bytes that AppendEntries adds, and little more than
// that or 64 KiB.
func SizeOfEntries(p contract.ReadPage) int {
	return size(func(s sizer) int {
		n := jobSize + len(p.Next)
		for i := range p.Entries {
			n += s.message(&p.Entries[i].Message, true)
		}
		return n
	})
}

// SizeOfDelayed returns at least the number of bytes that AppendDelayed adds, and little more than
// that or 64 KiB.
func SizeOfDelayed(p contract.DelayedPage, bodies bool) int {
	return size(func(s sizer) int {
		n := jobSize + len(p.Next)
		for i := range p.Messages {
			n += s.message(&p.Messages[i], bodies)
		}
		return n
	})
}

func size(of func(s sizer) int) int {
	n := of(sizer{})

	// Reading every byte is worth its cost only for a long answer.
	if n > short {
		n = of(sizer{exact: true})
	}
	return n
}

// sizer computes sizes as JSON.
type sizer struct{ exact bool }

func (s sizer) info(j *duly.JobInfo, body bool) int {
	return s.stored(&j.Job, body) + escaped*len(j.LastError) + s.bytes(j.Result)
}

func (s sizer) stored(j *duly.Job, body bool) int {
	// These texts may contain characters that need an escape.
	escapable := len(j.OrderKey) + len(j.Merge.Key) + len(j.Callback) + len(j.OnDone) + len(j.OnDead)
	n := jobSize + len(j.ID) + len(j.Queue) + len(j.Backoff) + escaped*escapable + s.headers(j.Headers)
	if body {
		n += s.bytes(j.Body)
	}
	return n
}

// message returns the size of a message. It has half as many field names as a job.
func (s sizer) message(m *duly.Message, body bool) int {
	n := jobSize/2 + len(m.ID) + escaped*len(m.Key) + s.headers(m.Headers)
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

// bytes returns the size of a string, or of its base64.
func (s sizer) bytes(b []byte) int {
	if s.exact && !isText(b) {
		return base64.StdEncoding.EncodedLen(len(b))
	}
	return s.text(b)
}

func (s sizer) text(b []byte) int {
	if !s.exact {
		// Every byte may need the longest escape, so the estimate is never too small.
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
