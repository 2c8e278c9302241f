package sqliteengine

import (
	"errors"
	"fmt"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/sqliteengine/internal/rules"
	"github.com/dulymq/duly/sqliteengine/internal/sqliteconn"
)

// storeError converts an error of the file to a contract error. Contract errors are
// returned unchanged.
func storeError(path string, err error) error {
	var ours *duly.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &ours):
		return ours
	case sqliteconn.IsFull(err):
		return &duly.Error{Code: duly.CodeFull, Cause: err,
			Message: fmt.Sprintf("the disk of %s is full; nothing was stored: free some space and repeat", path)}
	case sqliteconn.IsCorrupt(err):
		return &duly.Error{Code: duly.CodeCorrupt, Cause: err,
			Message: fmt.Sprintf("%s is damaged; stop the process and restore a backup", path)}
	// The engine's own statements never violate a constraint of a consistent file.
	case sqliteconn.IsConstraint(err), errors.Is(err, errJob), errors.Is(err, rules.ErrInvalid):
		return &duly.Error{Code: duly.CodeInternal, Cause: err,
			Message: fmt.Sprintf("%s has inconsistent entries; run a check with repair", path)}
	case sqliteconn.IsReadOnly(err):
		return &duly.Error{Code: duly.CodeUnavailable, Cause: err,
			Message: fmt.Sprintf("%s is not writable; check the permissions of the file and its folder", path)}
	}

	return &duly.Error{Code: duly.CodeUnavailable, Cause: err,
		Message: fmt.Sprintf("%s can't be read or written at the moment; the call may have taken effect", path)}
}

// isRefusal reports whether an operation refused its input. Such an operation has
// changed nothing, so its transaction continues.
func isRefusal(err error) bool {
	var ours *duly.Error
	return errors.As(err, &ours) && ours.Code != duly.CodeCorrupt && ours.Code != duly.CodeInternal
}
