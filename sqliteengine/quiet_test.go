package sqliteengine

import (
	"io"
	"log/slog"
)

// quiet is a logger that nobody reads.
func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }
