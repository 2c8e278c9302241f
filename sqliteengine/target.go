package sqliteengine

import (
	"context"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/sqliteengine/internal/sqliteconn"
)

// PutTarget implements contract.Targeter.
func (e registryAPI) PutTarget(ctx context.Context, target contract.Target) error {
	if err := target.Validate(); err != nil {
		return err
	}

	target.Settings = append([]byte{}, target.Settings...)
	namespace := contract.NamespaceOr(target.Namespace)
	return e.changeToken(ctx, spaceSome, func(t *tx) error {
		name := "target_change"
		if target.Version == 0 {
			if err := checkTargetRoom(t, namespace, target.Name); err != nil {
				return err
			}
			name = "target_make"
		}
		s := t.stmt(name).Text(1, namespace).Text(2, target.Name).Blob(3, target.Settings)
		if target.Version > 0 {
			s.Int(4, target.Version)
		}
		changed, err := s.Run()
		if err == nil && changed == 0 {
			err = contract.TargetConflict(namespace, target.Name)
		}
		return err
	})
}

// checkTargetRoom returns an error if the namespace can't have another target.
func checkTargetRoom(t *tx, namespace, name string) error {
	s := t.stmt("target_find").Text(1, namespace).Text(2, name)
	there, err := s.Step()
	s.Reset()
	switch {
	case err != nil:
		return err
	case there:
		return contract.TargetConflict(namespace, name)
	// The secret of the namespace does not count as a target.
	case name == "":
		return nil
	}

	n, err := t.count(t.stmt("target_count").Text(1, namespace))
	if err == nil && n >= contract.MaxTargets {
		err = contract.TargetsFull(namespace)
	}
	return err
}

// FindTarget implements contract.Targeter.
func (e registryAPI) FindTarget(ctx context.Context, namespace, name string) (target contract.Target, err error) {
	if err := contract.ValidateTarget(namespace, name); err != nil {
		return target, err
	}

	namespace = contract.NamespaceOr(namespace)
	err = e.read(ctx, func(c *conn) error {
		s := c.stmt("target_find").Text(1, namespace).Text(2, name)
		row, err := s.Step()
		if err != nil {
			return err
		}
		if !row {
			return contract.NoTargetNamed(namespace, name)
		}
		target = scanTarget(s)
		s.Reset()
		return nil
	})
	return target, err
}

// scanTarget reads the columns namespace, name, version, settings.
func scanTarget(s *sqliteconn.Stmt) contract.Target {
	return contract.Target{Namespace: s.ColText(0), Name: s.ColText(1), Version: s.ColInt(2), Settings: s.ColBytes(3)}
}

// DeleteTarget implements contract.Targeter.
func (e registryAPI) DeleteTarget(ctx context.Context, namespace, name string) error {
	if err := contract.ValidateTarget(namespace, name); err != nil {
		return err
	}
	return e.changeToken(ctx, spaceNone, func(t *tx) error {
		gone, err := t.stmt("target_drop").Text(1, contract.NamespaceOr(namespace)).Text(2, name).Run()
		if err == nil && gone == 0 {
			err = contract.NoTargetNamed(namespace, name)
		}
		return err
	})
}

// Targets implements contract.Targeter.
func (e registryAPI) Targets(ctx context.Context, namespace string, p duly.PageParams) (
	page contract.TargetPage, err error,
) {
	if err := contract.ValidateNamePage(&p); err != nil {
		return page, err
	}
	if err := contract.ValidateNamespace(namespace); err != nil {
		return page, err
	}

	err = e.read(ctx, func(c *conn) error {
		s := c.stmt("target_list").Text(1, contract.NamespaceOr(namespace)).Text(2, p.Cursor).Int(3, int64(p.Limit)+1)
		for {
			row, err := s.Step()
			if err != nil || !row {
				return err
			}
			page.Targets = append(page.Targets, scanTarget(s))
		}
	})
	if len(page.Targets) > p.Limit {
		page.Targets = page.Targets[:p.Limit]
		page.Next = page.Targets[p.Limit-1].Name
	}

	return page, err
}

// PushQueues implements contract.Targeter.
func (e registryAPI) PushQueues(ctx context.Context, p duly.PageParams) (page contract.QueuePage, err error) {
	after, err := contract.ValidateQueuePage(&p)
	if err != nil {
		return page, err
	}

	err = e.read(ctx, func(c *conn) error {
		s := c.stmt("push_queues").Text(1, after.Namespace).Text(2, after.Name).Int(3, int64(p.Limit)+1)
		for {
			row, err := s.Step()
			if err != nil || !row {
				return err
			}
			page.Queues = append(page.Queues, duly.QueueRef{Namespace: s.ColText(0), Name: s.ColText(1)})
		}
	})
	if len(page.Queues) > p.Limit {
		page.Queues = page.Queues[:p.Limit]
		page.Next = page.Queues[p.Limit-1].String()
	}

	return page, err
}
