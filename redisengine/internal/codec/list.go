package codec

import (
	"strconv"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// ListStart returns the place after which a list of a shard begins or continues, from the place of
// its cursor. A script takes it as a score and a member. An empty score is the beginning of the
// shard. An empty member is before all members of the score.
func ListStart(p *duly.ListParams, score string, member []byte) (string, []byte) {
	bound, ok := contract.ListBound(p)
	if !ok {
		return score, member
	}

	// A member is the place of a job. The bound sorts before all jobs of its score.
	at, err := strconv.ParseInt(score, 10, 64)
	if after := at >= bound; err == nil && after != p.Newest {
		return score, member
	}
	return strconv.FormatInt(bound, 10), nil
}

// Flag returns an argument of a script that is on or off.
func Flag(on bool) string {
	if on {
		return "1"
	}
	return "0"
}
