package contract

import (
	"github.com/dulymq/duly"
)

// EventOf is the row of the state table that the settlement is.
func EventOf(s duly.Settlement) Event {
	switch s {
	case duly.Ack:
		return EventAck
	case duly.Nack:
		return EventNack
	case duly.Release:
		return EventRelease
	}
	return EventBury
}
