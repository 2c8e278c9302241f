package contract

import (
	"github.com/dulymq/duly"
)

// IDMaker is an engine that makes the IDs of jobs itself, as [duly.MakeID] does, and
// so decides in which shard a job without keys lives. [duly.Client] asks it.
type IDMaker interface {
	// MakeID returns an ID for a job whose ID is empty: a ULID.
	MakeID(j *duly.Job) string
}
