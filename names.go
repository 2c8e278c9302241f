package duly

import "strings"

// QueueRef names a queue. An empty Namespace is [DefaultNamespace].
type QueueRef struct {
	Namespace string
	Name      string
}

// Q names a queue in the default namespace.
func Q(name string) QueueRef { return QueueRef{DefaultNamespace, name} }

// String returns "namespace/name". No name contains a slash.
func (q QueueRef) String() string { return namespaceOr(q.Namespace) + "/" + q.Name }

// Normal returns the reference with its namespace filled in.
func (q QueueRef) Normal() QueueRef { return QueueRef{namespaceOr(q.Namespace), q.Name} }

// GroupName returns the name that a group of a topic has as a queue: "topic@group".
func GroupName(topic, group string) string { return topic + "@" + group }

// Group splits the name of a group into the topic and the group's own name. It returns
// false if q is not the name of a group.
func (q QueueRef) Group() (topic QueueRef, group string, ok bool) {
	name, group, ok := strings.Cut(q.Name, "@")
	if !ok {
		return QueueRef{}, "", false
	}
	return QueueRef{q.Namespace, name}, group, true
}

// IsGroup reports whether q names a group of a topic.
func (q QueueRef) IsGroup() bool { return strings.IndexByte(q.Name, '@') >= 0 }

// namespaceOr returns the namespace, or [DefaultNamespace] if it is empty.
func namespaceOr(namespace string) string {
	if namespace == "" {
		return DefaultNamespace
	}
	return namespace
}
