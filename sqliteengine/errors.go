package sqliteengine

import (
	"errors"
	"fmt"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/sqliteengine/internal/sq"
)

// storeError is an error of the file as the contract tells it. Errors of the
// contract stay as they are.
func storeError(path string, err error) error {
	var ours *duly.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &ours):
		return ours
	case sq.IsFull(err):
		return &duly.Error{Code: duly.CodeFull, Cause: err,
			Message: fmt.Sprintf("no room on the disk of %s; nothing was stored: free some, then repeat", path)}
	case sq.IsCorrupt(err):
		return &duly.Error{Code: duly.CodeCorrupt, Cause: err,
			Message: fmt.Sprintf("%s is damaged; stop, and restore a backup", path)}
	case sq.IsConstraint(err), errors.Is(err, errJob), errors.Is(err, errRules):
		return &duly.Error{Code: duly.CodeInternal, Cause: err,
			Message: fmt.Sprintf("%s holds entries that contradict each other; run a check with repair", path)}
	case sq.IsReadOnly(err):
		return &duly.Error{Code: duly.CodeUnavailable, Cause: err,
			Message: fmt.Sprintf("%s can't be written to; check the rights of the file and of its folder", path)}
	}

	return &duly.Error{Code: duly.CodeUnavailable, Cause: err,
		Message: fmt.Sprintf("%s can't be read or written at the moment; it may have happened", path)}
}

// refusal tells whether an operation has refused to do anything, which leaves
// its transaction as it was.
func refusal(err error) bool {
	var ours *duly.Error
	return errors.As(err, &ours) && ours.Code != duly.CodeCorrupt && ours.Code != duly.CodeInternal
}
