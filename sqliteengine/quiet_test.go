package sqliteengine

import (
	"io"
	"log/slog"
)

// quiet returns a logger that discards everything.
func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }
