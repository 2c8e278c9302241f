package contract

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/dulymq/duly"
)

// Errorf returns an error of the code. The message may wrap a cause with %w, and then contains its
// text. To keep the text of a cause out of the message, set Cause instead.
func Errorf(code duly.Code, format string, args ...any) *duly.Error {
	err := fmt.Errorf(format, args...)
	// The cause stays reachable for errors.Is, although the message has its text.
	return &duly.Error{Code: code, Message: err.Error(), Cause: errors.Unwrap(err)}
}

// Invalid returns a [duly.ErrInvalid] for one field.
func Invalid(field, format string, args ...any) *duly.Error {
	return fieldsError(duly.CodeInvalid, []duly.FieldError{{Field: field, Problem: fmt.Sprintf(format, args...)}})
}

// TooLarge returns a [duly.ErrTooLarge] for one field.
func TooLarge(field, format string, args ...any) *duly.Error {
	return fieldsError(duly.CodeTooLarge, []duly.FieldError{{Field: field, Problem: fmt.Sprintf(format, args...)}})
}

// Conflict returns a [duly.ErrConflict] with the state of the job that caused it.
func Conflict(state duly.State, format string, args ...any) *duly.Error {
	return &duly.Error{Code: duly.CodeConflict, State: state, Message: fmt.Sprintf(format, args...)}
}

// NotFound returns a [duly.ErrNotFound] for the job.
func NotFound(q duly.QueueRef, id string) *duly.Error {
	// A caller may have passed a token as the queue or the ID.
	return Errorf(duly.CodeNotFound, "no job %s in queue %s", quoted(id, duly.MaxID), withoutSecret(q.String()))
}

// NoTopic returns a [duly.ErrNotFound] for a topic.
func NoTopic(topic duly.QueueRef) *duly.Error {
	return Errorf(duly.CodeNotFound, "no topic %s; create it, or publish to it", withoutSecret(topic.String()))
}

// NoGroup returns a [duly.ErrNotFound] for a group of a topic.
func NoGroup(group duly.QueueRef) *duly.Error {
	topic, name, _ := group.Group()
	return Errorf(duly.CodeNotFound, "no group %s of topic %s; create it",
		quoted(name, duly.MaxName), withoutSecret(topic.String()))
}

// NoMessage returns a [duly.ErrNotFound] for a message that a group does not hold, or for a
// delayed message of a topic.
func NoMessage(q duly.QueueRef, id string) *duly.Error {
	return Errorf(duly.CodeNotFound, "no message %s in %s", quoted(id, duly.MaxID), withoutSecret(q.String()))
}

// IsTopic returns a [duly.ErrConflict] for an operation on a queue, or for a push, that names
// a topic.
func IsTopic(q duly.QueueRef) *duly.Error {
	return Errorf(duly.CodeConflict, "%s is a topic; name a group, TOPIC@GROUP, or publish to the topic",
		withoutSecret(q.String()))
}

// TargetIsTopic returns a [duly.ErrInvalid] for a group whose target is the name of a topic.
func TargetIsTopic(target string) *duly.Error {
	return Invalid("target", "is %s, a topic, but a bridge pushes jobs into a queue; name a queue, or give that topic a group",
		Quoted(target))
}

// IsQueue returns a [duly.ErrConflict] for an operation on a topic that names a queue.
func IsQueue(topic duly.QueueRef) *duly.Error {
	return Errorf(duly.CodeConflict, "%s is a queue, and a topic cannot have its name; "+
		"choose another name, or destroy the queue", withoutSecret(topic.String()))
}

// NotForGroup returns a [duly.ErrInvalid] for an operation that a group does not have.
func NotForGroup(group duly.QueueRef, operation string) *duly.Error {
	return Invalid("queue", "is %s, a group, which has no %s; list its messages, or read its topic",
		Quoted(group.Name), operation)
}

// NotBeyondCursor returns a [duly.ErrConflict] for a message beyond the cursor. The operation
// needs a message that the group has delivered.
func NotBeyondCursor(group duly.QueueRef, id string) *duly.Error {
	return Errorf(duly.CodeConflict, "message %s is beyond the cursor of group %s, which does not hold it yet",
		quoted(id, duly.MaxID), withoutSecret(group.String()))
}

// ForeignPosition returns a [duly.ErrInvalid] for an ID that is not a position of the group's
// topic.
func ForeignPosition(group duly.QueueRef, id string) *duly.Error {
	topic, _, _ := group.Group()
	return Invalid("id", "is %s, must be a position of topic %s", quoted(id, duly.MaxID), withoutSecret(topic.String()))
}

// TopicFull returns a [duly.ErrFull] for a Publish that would break a bound of a topic: its
// setting max_count or max_bytes.
func TopicFull(topic duly.QueueRef, setting string, bound int64) *duly.Error {
	return Errorf(duly.CodeFull, "topic %s is full: %s is %d; "+
		"wait until its groups have handled more, raise %s, or set overflow to drop", topic, setting, bound, setting)
}

// GroupsFull returns a [duly.ErrFull] for a topic that has the maximum number of groups.
func GroupsFull(topic duly.QueueRef) *duly.Error {
	return Errorf(duly.CodeFull, "topic %s has %d groups, the maximum; destroy a group that is not used", topic, duly.MaxGroups)
}

// LogEnds returns a [duly.ErrConflict] for a Read from beyond the end of a shard's log. end is the
// position of the last message, or empty if the log never had a message.
func LogEnds(from duly.From, end string) *duly.Error {
	if end == "" {
		// A log without messages has no last position to name.
		end = "its start"
	}
	return Errorf(duly.CodeConflict, "from is %s, but the log ends at %s: the store has lost its last writes",
		quoted(string(from), duly.MaxID), end)
}

// AheadOfLog returns a [duly.ErrInvalid] for a place that a group cannot have: beyond the end
// of the log, or a time ahead of the engine's clock.
func AheadOfLog(from duly.From) *duly.Error {
	return Invalid("from", "is %s, which is ahead of the log; give a position in it, a time that has passed, start or end",
		quoted(string(from), duly.MaxID))
}

// OrderNeedsEmpty returns a [duly.ErrConflict] for a change of a group's order to key while
// the group holds messages.
func OrderNeedsEmpty(group duly.QueueRef, held int64) *duly.Error {
	return Errorf(duly.CodeConflict, "group %s holds %d messages; its order can change to key only while it holds none; "+
		"settle or purge them first", withoutSecret(group.String()), held)
}

// QueueFull returns a [duly.ErrFull] for a push into a queue that has max_jobs jobs.
func QueueFull(q duly.QueueRef, maxJobs int) *duly.Error {
	return Errorf(duly.CodeFull, "queue %s is full: max_jobs is %d; wait until some jobs are done, or raise max_jobs", q, maxJobs)
}

// NamespaceFull returns a [duly.ErrFull] for a new queue in a namespace that has the maximum number
// of queues.
func NamespaceFull(namespace string, maxQueues int) *duly.Error {
	return Errorf(duly.CodeFull, "namespace %s has %d queues, the maximum; destroy a queue that is not used", namespace, maxQueues)
}

// EndsTooSoon returns a [duly.ErrInvalid] for a job whose TTL ends before it is due.
func EndsTooSoon(ttl time.Duration, byDefault bool) *duly.Error {
	// The job itself has no TTL, so the error says where the TTL comes from.
	if byDefault {
		return Invalid("ttl", "is %s by the queue's default and ends before the job is due; give one of at least the delay",
			duly.FormatDuration(ttl))
	}
	return Invalid("ttl", "is %s and ends before the job is due; it must be at least the delay",
		duly.FormatDuration(ttl))
}

// NoSchedule returns a [duly.ErrNotFound] for a schedule.
func NoSchedule(q duly.QueueRef, name string) *duly.Error {
	return Errorf(duly.CodeNotFound, "no schedule %s in queue %s", Quoted(name), withoutSecret(q.String()))
}

// ScheduleOwned returns a [duly.ErrConflict] for a Put of a schedule that another owner has put.
func ScheduleOwned(q duly.QueueRef, name, owner string) *duly.Error {
	return Errorf(duly.CodeConflict, "schedule %s of queue %s belongs to owner %s; choose another name, "+
		"or delete that schedule first", Quoted(name), q, Quoted(owner))
}

// ScheduleVersion returns a [duly.ErrConflict] for a Delete of a schedule with an old version.
func ScheduleVersion(q duly.QueueRef, name string, version int64) *duly.Error {
	return Errorf(duly.CodeConflict, "schedule %s of queue %s has version %d; read it again", Quoted(name), q, version)
}

// ScheduleMoves returns a [duly.ErrUnavailable] for a change of a schedule that is on its way to another
// engine. It takes seconds, so the caller may try again.
func ScheduleMoves(q duly.QueueRef, name string) *duly.Error {
	return Errorf(duly.CodeUnavailable, "schedule %s of queue %s is moving to another pool; try again", Quoted(name), q)
}

// ScheduleFree returns a [duly.ErrConflict] for the drop of a schedule that is not held.
func ScheduleFree(q duly.QueueRef, name string) *duly.Error {
	return Errorf(duly.CodeConflict, "schedule %s of queue %s is not held; hold it first", Quoted(name), q)
}

// SchedulesFull returns a [duly.ErrFull] for a new schedule if its shard of the queue has the
// maximum number of schedules.
func SchedulesFull(q duly.QueueRef, most int) *duly.Error {
	return Errorf(duly.CodeFull, "queue %s is full: its shard has %d schedules, which is the bound; delete some, "+
		"or use another queue", q, most)
}

// NoToken returns a [duly.ErrNotFound] for a token.
func NoToken() *duly.Error { return Errorf(duly.CodeNotFound, "no such token") }

// Unanswered returns a [duly.ErrUnavailable] for a caller whose context has ended with this error
// while its call was in flight. An engine returns the context's own error only if nothing was
// done.
func Unanswered(cause error) *duly.Error {
	return &duly.Error{
		Code: duly.CodeUnavailable, Cause: cause,
		Message: "the caller did not wait for the answer (" + cause.Error() + "); the call may have happened",
	}
}

func fieldsError(code duly.Code, fields []duly.FieldError) *duly.Error {
	e := &duly.Error{Code: code, Fields: fields}
	parts := make([]string, len(fields))
	for i, f := range fields {
		parts[i] = f.Field + " " + f.Problem
	}
	e.Message = strings.Join(parts, "; ")
	return e
}

// BadFields collects the faults of one input, so that one error names them all. The zero
// BadFields is empty.
type BadFields struct {
	fields []duly.FieldError
	sizes  int // number of fields whose only fault is their size
}

// Add adds a bad field with its problem, which names the bound.
func (f *BadFields) Add(field, format string, args ...any) {
	f.fields = append(f.fields, duly.FieldError{Field: field, Problem: fmt.Sprintf(format, args...)})
}

// Take adds the bad fields of another check's error. It does nothing for nil.
func (f *BadFields) Take(err error) {
	// e escapes, so a valid input would allocate too.
	if err == nil {
		return
	}
	var e *duly.Error
	if errors.As(err, &e) {
		f.fields = append(f.fields, e.Fields...)
	}
}

// Len returns the number of bad fields so far.
func (f *BadFields) Len() int { return len(f.fields) }

// size adds a field that is too large. Without other faults, the error is too_large.
func (f *BadFields) size(field, format string, args ...any) {
	f.Add(field, format, args...)
	f.sizes++
}

// Err returns nil without bad fields. Otherwise it returns [duly.ErrInvalid], or
// [duly.ErrTooLarge] if all fields are only too large.
func (f *BadFields) Err() error {
	switch len(f.fields) {
	case 0:
		return nil
	// Every fault is a size, so a smaller input would be accepted.
	case f.sizes:
		return fieldsError(duly.CodeTooLarge, f.fields)
	}
	return fieldsError(duly.CodeInvalid, f.fields)
}

// DeliveryInUse returns the error of a Configure that changes the delivery of a queue with
// jobs.
func DeliveryInUse(q duly.QueueRef, is duly.DeliveryMode) error {
	return Errorf(duly.CodeConflict, "queue %s is a %s queue and holds jobs; its delivery changes only while it is empty, "+
		"without dead and done jobs: purge it first, or use another queue", q, is)
}

// ShardsFixed returns the error of a Configure that changes the number of shards of a queue that exists.
func ShardsFixed(shards int) error {
	return Invalid("shards", "is %d since the queue was created; to change it, destroy the queue and create it again", shards)
}

// NoTargetNamed returns the error for a target that does not exist.
func NoTargetNamed(namespace, name string) error {
	if name == "" {
		return Errorf(duly.CodeNotFound, "namespace %s has no secret", NamespaceOr(namespace))
	}
	return Errorf(duly.CodeNotFound, "namespace %s has no target %s", NamespaceOr(namespace), Quoted(name))
}

// TargetConflict returns the error of a PutTarget with an old version.
func TargetConflict(namespace, name string) error {
	return Errorf(duly.CodeConflict, "target %s of namespace %s has changed meanwhile; read it again",
		Quoted(name), NamespaceOr(namespace))
}

// TargetsFull returns the error for a new target in a namespace that has the maximum number of
// targets.
func TargetsFull(namespace string) error {
	return Errorf(duly.CodeFull, "namespace %s has %d targets, the maximum; delete some",
		NamespaceOr(namespace), MaxTargets)
}

// PlacementConflict returns the error of a PutPlacement with an old version.
func PlacementConflict(namespace string) error {
	return Errorf(duly.CodeConflict, "the placement of namespace %s has changed meanwhile; read it again", namespace)
}

// BadCursor returns the error for a cursor that is not from a page of the list.
func BadCursor() error {
	return Invalid("cursor", "must be the next of a page of this list; begin without a cursor")
}
