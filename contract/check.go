package contract

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/dulymq/duly"
)

// CheckBatch reports [duly.ErrTooLarge] for more than [duly.MaxBatch] items, and for
// more than [duly.MaxBatchBytes] of bodies in more than one item.
func CheckBatch(items int, bodyBytes int) error {
	if items > duly.MaxBatch {
		return TooLarge("batch", "has %d items, may have at most %d; send several calls", items, duly.MaxBatch)
	}
	if items > 1 && bodyBytes > duly.MaxBatchBytes {
		return TooLarge("batch", "has %d bytes of bodies, may have at most %d; send several calls", bodyBytes, duly.MaxBatchBytes)
	}
	return nil
}

// BodyBytes is the size of the jobs' bodies together.
func BodyBytes(jobs []duly.Job) (n int) {
	for i := range jobs {
		n += len(jobs[i].Body)
	}
	return n
}

// ValidateReserve reports [duly.ErrInvalid] with every bad parameter.
func ValidateReserve(p *duly.ReserveParams) error {
	var f BadFields
	checkQueues(&f, p.Namespace, p.Queues)
	if p.Max < 1 || p.Max > duly.MaxBatch {
		f.Add("max", "is %d, must be between 1 and %d", p.Max, duly.MaxBatch)
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

// ValidateWait reports [duly.ErrInvalid] with every bad parameter.
func ValidateWait(p *duly.WaitParams) error {
	var f BadFields
	checkQueues(&f, p.Namespace, p.Queues)
	if p.Timeout < 0 || p.Timeout > duly.MaxWait {
		f.Add("wait", "is %s, must be between 0s and %s", duly.FormatDuration(p.Timeout), duly.FormatDuration(duly.MaxWait))
	}
	return f.Err()
}

func checkQueues(f *BadFields, namespace string, queues []string) {
	checkNamespace(f, namespace)
	if len(queues) < 1 || len(queues) > duly.MaxReserveQueues {
		f.Add("queues", "are %d, must be between 1 and %d", len(queues), duly.MaxReserveQueues)
		return
	}
	for _, q := range queues {
		checkQueue(f, "queues", q)
	}
}

// ValidateList reports [duly.ErrInvalid] with every bad parameter, and fills in the
// page's default.
func ValidateList(p *duly.ListParams) error {
	var f BadFields
	checkState(p.State, &f)
	checkPage(&p.PageParams, &f)
	return f.Err()
}

// ValidatePage reports [duly.ErrInvalid] for a bad limit, and fills in the default.
func ValidatePage(p *duly.PageParams) error {
	var f BadFields
	checkPage(p, &f)
	return f.Err()
}

func checkPage(p *duly.PageParams, f *BadFields) {
	if p.Limit == 0 {
		p.Limit = duly.DefaultPage
	}
	if p.Limit < 1 || p.Limit > duly.MaxBatch {
		f.Add("limit", "is %d, must be between 1 and %d", p.Limit, duly.MaxBatch)
	}
}

// ValidateNamePage is Validate for a page of names, whose cursor is the last name
// of the page before.
func ValidateNamePage(p *duly.PageParams) error {
	if err := ValidatePage(p); err != nil {
		return err
	}
	if ValidateNamespace(p.Cursor) != nil {
		return BadCursor()
	}
	return nil
}

// ValidateTokenPage is Validate for a page of tokens, whose cursor is the hash of
// the last token of the page before, in hex: after, empty for the first page.
func ValidateTokenPage(p *duly.PageParams) (after []byte, err error) {
	if err := ValidatePage(p); err != nil {
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

// ValidateRequeue reports [duly.ErrInvalid] with every bad parameter, [duly.ErrTooLarge] for
// too many IDs.
func ValidateRequeue(p *duly.RequeueParams) error {
	if err := CheckBatch(len(p.IDs), 0); err != nil {
		return err
	}
	var f BadFields
	switch {
	case len(p.IDs) > 0 && p.N != 0:
		f.Add("n", "and ids are both set, give one of them")
	case len(p.IDs) == 0 && (p.N < 1 || p.N > duly.MaxBatch):
		f.Add("n", "is %d, must be between 1 and %d", p.N, duly.MaxBatch)
	}
	checkRules(&f, "", rules{tries: p.Tries, ttl: p.TTL})
	return f.Err()
}

// ValidatePurge reports [duly.ErrInvalid] for a state that holds no jobs, or a
// negative n.
func ValidatePurge(state duly.State, n int) error {
	var f BadFields
	checkState(state, &f)
	if n < 0 {
		f.Add("n", "is %d, must be at least 1", n)
	}
	return f.Err()
}
