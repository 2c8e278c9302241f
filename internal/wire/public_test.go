package wire

import (
	"errors"
	"testing"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// Fault X20: an error of the store is answered with its code, but without its text, which may contain the
// store's address. The server's own errors keep their text.
func TestPublicHidesTheStore(t *testing.T) {
	t.Parallel()
	const where = "redis at 10.0.0.1:6379: refused"
	for _, code := range []duly.Code{
		duly.CodeFull, duly.CodeNotDurable, duly.CodeUnauthorized, duly.CodeForbidden, duly.CodeUnsupported,
		duly.CodeUnavailable, duly.CodeCorrupt, duly.CodeInternal, duly.CodeClosed,
	} {
		e := Public(&duly.Error{Code: code, Message: where, Cause: errors.New("OOM")})
		if e.Code != code || e.Message == where || e.Message == "" {
			t.Errorf("%s travels as %v", code, e)
		}
	}
	own := contract.TopicFull(duly.Q("t"), "max_count", 7)
	if e := Public(own); e.Error() != own.Error() {
		t.Errorf("a bound of a topic travels as %v, want %v", e, own)
	}
}
