package duly

// QueueRef names a queue. An empty Namespace is [DefaultNamespace].
type QueueRef struct {
	Namespace string
	Name      string
}

// Q is short for a queue in the default namespace.
func Q(name string) QueueRef { return QueueRef{DefaultNamespace, name} }

// String is "namespace/name"; no name contains a slash.
func (q QueueRef) String() string { return namespaceOr(q.Namespace) + "/" + q.Name }

// Normal is the reference with its namespace filled in.
func (q QueueRef) Normal() QueueRef { return QueueRef{namespaceOr(q.Namespace), q.Name} }

// namespaceOr returns the namespace, or [DefaultNamespace] if it is empty.
func namespaceOr(namespace string) string {
	if namespace == "" {
		return DefaultNamespace
	}
	return namespace
}
