package codec

import (
	"bytes"
	"strconv"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// ListStart returns the place after which a list of a shard begins or continues, from the place of
// its cursor, its moment or its order key. A script takes it as a score and a member. An empty score is the beginning of the
// shard. An empty member is before all members of the score.
func ListStart(p *duly.ListParams, score string, member []byte) (string, []byte) {
	if p.Key != "" {
		return blockedStart(p, score, member)
	}
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

// OnlyKey returns what the members of an order key begin with in a set of blocked jobs or messages. It is
// empty without a key.
func OnlyKey(key string) string {
	if key == "" {
		return ""
	}
	return string([]byte{byte(len(key))}) + key
}

// blockedStart is like ListStart for the jobs of an order key. All scores are 0.
func blockedStart(p *duly.ListParams, score string, member []byte) (string, []byte) {
	bound := []byte(OnlyKey(p.Key))
	if p.Newest {
		// The first byte of a rank or of a place is below 0xff.
		bound = append(bound, 0xff)
	}
	if after := bytes.Compare(member, bound) > 0; score != "" && after != p.Newest {
		return score, member
	}
	return "0", bound
}

// Flag returns an argument of a script that is on or off.
func Flag(on bool) string {
	if on {
		return "1"
	}
	return "0"
}
