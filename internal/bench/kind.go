package bench

import (
	"fmt"
	"strconv"
	"time"

	"github.com/dulymq/duly"
)

// Kind is a kind of job: the rules that it sets.
type Kind string

// The kinds of jobs in the phase life.
const (
	// Plain jobs set no rules.
	Plain Kind = "plain"
	// Tries, Lease, Backoff, TTL and Retain jobs each set only the rule of that name.
	Tries   Kind = "tries"
	Lease   Kind = "lease"
	Backoff Kind = "backoff"
	TTL     Kind = "ttl"    // a TTL of an hour
	Retain  Kind = "retain" // a Retain of a minute
	// ID jobs have callers' IDs of 18 bytes, which are no ULIDs.
	ID Kind = "id"
	// Priority jobs have priorities from 1 to 10.
	Priority Kind = "priority"
	// Order jobs share 1,000 order keys.
	Order Kind = "order"
	// Merge jobs have different merge keys, so none of them merges.
	Merge Kind = "merge"
	// All jobs set tries, ID, priority, order key and TTL.
	All Kind = "all"

	// Bare is not a kind of job, but the work of [Native].
	Bare Kind = "bare"
)

// Kinds returns every kind of job.
func Kinds() []Kind {
	return []Kind{Plain, Tries, ID, Priority, Order, Merge, TTL, Retain, Lease, Backoff, All}
}

// orderKeys is the number of order keys that the jobs of a queue share.
const orderKeys = 1000

// shape sets the rules of the kind. number is the job's number in its queue, from 0.
func (k Kind) shape(number int64, job *duly.Job) {
	switch k {
	case Tries:
		job.Tries = 5
	case ID:
		job.ID, job.Made = fmt.Sprintf("invoice-%010d", number), false
	case Priority:
		job.Priority = 1 + int(number%10)
	case Order:
		job.OrderKey = "customer-" + strconv.FormatInt(number%orderKeys, 10)
	case Merge:
		job.Merge = duly.Merge{Key: "document-" + strconv.FormatInt(number, 10)}
	case TTL:
		job.TTL = time.Hour
	case Retain:
		job.Retain = time.Minute
	case Lease:
		job.Lease = 2 * time.Minute
	case Backoff:
		job.Backoff = "exp:2s:2h"
	case All:
		for _, one := range []Kind{Tries, ID, Priority, Order, TTL} {
			one.shape(number, job)
		}
	}
}
