package view

import (
	"time"

	"github.com/dulymq/duly"
)

// Duration returns a duration to read: without milliseconds from 10 s on.
func Duration(d time.Duration) string {
	if d >= 10*time.Second {
		return duly.FormatDuration(d.Round(time.Second))
	}
	return duly.FormatDuration(d.Round(time.Millisecond))
}
