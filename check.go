package duly

import (
	"crypto/sha256"
	"encoding/hex"
)

// The envelope checks that every engine makes before it looks at an item.

// CheckBatch reports [ErrTooLarge] for more than [MaxBatch] items, and for
// more than [MaxBatchBytes] of bodies in more than one item.
func CheckBatch(items int, bodyBytes int) error {
	if items > MaxBatch {
		return TooLarge("batch", "has %d items, may have at most %d; send several calls", items, MaxBatch)
	}
	if items > 1 && bodyBytes > MaxBatchBytes {
		return TooLarge("batch", "has %d bytes of bodies, may have at most %d; send several calls", bodyBytes, MaxBatchBytes)
	}
	return nil
}

// BodyBytes is the size of the jobs' bodies together.
func BodyBytes(jobs []Job) (n int) {
	for i := range jobs {
		n += len(jobs[i].Body)
	}
	return n
}

// Validate reports [ErrInvalid] with every bad parameter.
func (p *ReserveParams) Validate() error {
	var f BadFields
	checkQueues(&f, p.Namespace, p.Queues)
	if p.Max < 1 || p.Max > MaxBatch {
		f.Add("max", "is %d, must be between 1 and %d", p.Max, MaxBatch)
	}
	if p.Lease != 0 {
		checkLease(&f, "lease", p.Lease)
	}
	if p.Consumer != "" {
		checkName(&f, "consumer", p.Consumer, "-_")
	}
	if p.Target != "" {
		checkName(&f, "target", p.Target, "-")
	}
	return f.Err()
}

// Validate reports [ErrInvalid] with every bad parameter.
func (p *WaitParams) Validate() error {
	var f BadFields
	checkQueues(&f, p.Namespace, p.Queues)
	if p.Timeout < 0 || p.Timeout > MaxWait {
		f.Add("wait", "is %s, must be between 0s and %s", FormatDuration(p.Timeout), FormatDuration(MaxWait))
	}
	return f.Err()
}

func checkQueues(f *BadFields, namespace string, queues []string) {
	checkNamespace(f, namespace)
	if len(queues) < 1 || len(queues) > MaxReserveQueues {
		f.Add("queues", "are %d, must be between 1 and %d", len(queues), MaxReserveQueues)
		return
	}
	for _, q := range queues {
		checkQueue(f, "queues", q)
	}
}

// Validate reports [ErrInvalid] with every bad parameter, and fills in the
// page's default.
func (p *ListParams) Validate() error {
	var f BadFields
	p.State.check(&f)
	p.PageParams.check(&f)
	return f.Err()
}

// Validate reports [ErrInvalid] for a bad limit, and fills in the default.
func (p *PageParams) Validate() error {
	var f BadFields
	p.check(&f)
	return f.Err()
}

func (p *PageParams) check(f *BadFields) {
	if p.Limit == 0 {
		p.Limit = DefaultPage
	}
	if p.Limit < 1 || p.Limit > MaxBatch {
		f.Add("limit", "is %d, must be between 1 and %d", p.Limit, MaxBatch)
	}
}

// ValidateNames is Validate for a page of names, whose cursor is the last name
// of the page before.
func (p *PageParams) ValidateNames() error {
	if err := p.Validate(); err != nil {
		return err
	}
	if ValidateNamespace(p.Cursor) != nil {
		return BadCursor()
	}
	return nil
}

// ValidateTokens is Validate for a page of tokens, whose cursor is the hash of
// the last token of the page before, in hex: after, empty for the first page.
func (p *PageParams) ValidateTokens() (after []byte, err error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	after, err = hex.DecodeString(p.Cursor)
	if err != nil || p.Cursor != "" && len(after) != sha256.Size {
		return nil, BadCursor()
	}
	return after, nil
}

// BadCursor is the error for a cursor that no page has given out.
func BadCursor() error {
	return Invalid("cursor", "is not one that a page of this list gave; begin without one")
}

// Validate reports [ErrInvalid] with every bad parameter, [ErrTooLarge] for
// too many IDs.
func (p *RequeueParams) Validate() error {
	if err := CheckBatch(len(p.IDs), 0); err != nil {
		return err
	}
	var f BadFields
	switch {
	case len(p.IDs) > 0 && p.N != 0:
		f.Add("n", "and ids are both set, give one of them")
	case len(p.IDs) == 0 && (p.N < 1 || p.N > MaxBatch):
		f.Add("n", "is %d, must be between 1 and %d", p.N, MaxBatch)
	}
	checkRules(&f, "", rules{tries: p.Tries, ttl: p.TTL})
	return f.Err()
}

// ValidatePurge reports [ErrInvalid] for a state that holds no jobs, or a
// negative n.
func ValidatePurge(state State, n int) error {
	var f BadFields
	state.check(&f)
	if n < 0 {
		f.Add("n", "is %d, must be at least 1", n)
	}
	return f.Err()
}
