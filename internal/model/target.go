package model

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// targetKey names a target.
type targetKey struct{ namespace, name string }

func targetOf(namespace, name string) targetKey {
	return targetKey{contract.NamespaceOr(namespace), name}
}

// PutTarget implements contract.Targeter.
func (e *Engine) PutTarget(ctx context.Context, t contract.Target) error {
	if err := t.Validate(); err != nil {
		return err
	}
	if err := e.begin(ctx); err != nil {
		return err
	}
	defer e.mu.Unlock()

	key := targetOf(t.Namespace, t.Name)

	// The target without a name is the namespace's secret, and does not count.
	switch stored, there := e.targets[key]; {
	case stored.Version != t.Version:
		return contract.TargetConflict(t.Namespace, t.Name)
	case !there && t.Name != "":
		if e.targetCounts[key.namespace] >= contract.MaxTargets {
			return contract.TargetsFull(t.Namespace)
		}
		e.targetCounts[key.namespace]++
	}

	t.Namespace, t.Settings = key.namespace, slices.Clone(t.Settings)
	t.Version++
	e.targets[key] = t
	e.tokensChanged()
	return nil
}

// targetsOf returns the named targets of a namespace, by name.
func (e *Engine) targetsOf(namespace string) (all []contract.Target) {
	for key, t := range e.targets {
		if key.namespace == namespace && key.name != "" {
			all = append(all, t)
		}
	}
	slices.SortFunc(all, func(a, b contract.Target) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// FindTarget implements contract.Targeter.
func (e *Engine) FindTarget(ctx context.Context, namespace, name string) (contract.Target, error) {
	if err := contract.ValidateTarget(namespace, name); err != nil {
		return contract.Target{}, err
	}
	if err := e.begin(ctx); err != nil {
		return contract.Target{}, err
	}
	defer e.mu.Unlock()
	t, ok := e.targets[targetOf(namespace, name)]
	if !ok {
		return t, contract.NoTargetNamed(namespace, name)
	}
	t.Settings = slices.Clone(t.Settings)
	return t, nil
}

// DeleteTarget implements contract.Targeter.
func (e *Engine) DeleteTarget(ctx context.Context, namespace, name string) error {
	if err := contract.ValidateTarget(namespace, name); err != nil {
		return err
	}
	if err := e.begin(ctx); err != nil {
		return err
	}
	defer e.mu.Unlock()
	key := targetOf(namespace, name)
	if _, ok := e.targets[key]; !ok {
		return contract.NoTargetNamed(namespace, name)
	}
	delete(e.targets, key)
	if key.name != "" {
		e.targetCounts[key.namespace]--
	}
	e.tokensChanged()
	return nil
}

// Targets implements contract.Targeter.
func (e *Engine) Targets(ctx context.Context, namespace string, p duly.PageParams) (page contract.TargetPage, err error) {
	if err := contract.ValidateNamePage(&p); err != nil {
		return page, err
	}
	if err := contract.ValidateNamespace(namespace); err != nil {
		return page, err
	}
	if err := e.begin(ctx); err != nil {
		return page, err
	}
	defer e.mu.Unlock()
	for _, t := range e.targetsOf(contract.NamespaceOr(namespace)) {
		if t.Name > p.Cursor {
			t.Settings = slices.Clone(t.Settings)
			page.Targets = append(page.Targets, t)
		}
	}
	if len(page.Targets) > p.Limit {
		page.Targets = page.Targets[:p.Limit]
		page.Next = page.Targets[p.Limit-1].Name
	}
	return page, nil
}

// PushQueues implements contract.Targeter.
func (e *Engine) PushQueues(ctx context.Context, p duly.PageParams) (page contract.QueuePage, err error) {
	after, err := contract.ValidateQueuePage(&p)
	if err != nil {
		return page, err
	}
	if err := e.begin(ctx); err != nil {
		return page, err
	}
	defer e.mu.Unlock()
	for ref, q := range e.queues {
		if q.serves(true) && compareRefs(ref, after) > 0 {
			page.Queues = append(page.Queues, ref)
		}
	}
	slices.SortFunc(page.Queues, compareRefs)
	if len(page.Queues) > p.Limit {
		page.Queues = page.Queues[:p.Limit]
		page.Next = page.Queues[p.Limit-1].String()
	}
	return page, nil
}

// pushChanged rings everybody who watches, if the queue is a push queue.
func (e *Engine) pushChanged(q *queue) {
	if q != nil && q.serves(true) {
		e.tokensChanged()
	}
}

func compareRefs(a, b duly.QueueRef) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}
