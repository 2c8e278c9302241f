package contract

import (
	"context"

	"github.com/dulymq/duly"
)

// Passer is implemented by engines that wake the next waiter at once if a woken one
// does not reserve. [PasserOf] makes one of every engine.
type Passer interface {
	// Pass reports that a caller for which Wait returned true does not call Reserve
	// for these queues. The engine then wakes the next waiter. A call of Reserve that
	// fails needs no Pass: the engine has seen it. Pass works also after ctx has ended.
	Pass(ctx context.Context, namespace string, queues []string)
}

// PasserOf returns the engine itself if it is a Passer, else one whose Pass does
// nothing, so that the next waiter is woken 2 s later.
func PasserOf(e duly.Engine) Passer {
	if p, ok := e.(Passer); ok {
		return p
	}
	return noPasser{}
}

type noPasser struct{}

// Pass implements Passer.
func (noPasser) Pass(context.Context, string, []string) {}
