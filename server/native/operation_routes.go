package native

import (
	"net/http"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/wire"
	"github.com/dulymq/duly/server/auth"
	"github.com/dulymq/duly/server/operations"
	"github.com/dulymq/duly/server/operations/spec"
	"github.com/dulymq/duly/server/route"
)

const (
	operationsPath = "/v1/{namespace}/operations"
	operationPath  = operationsPath + "/{id}"
)

// operationRoutes returns the routes of bulk operations. The right that a change needs depends on the operation, so the
// handlers check it.
func (a *API) operationRoutes() []route.Route {
	return []route.Route{
		{
			Method: "POST", Path: operationsPath, Access: auth.Produce, MaxBody: idsBody,
			Handler: a.startOperation, Doc: startOperationDoc,
		},
		{
			Method: "GET", Path: operationsPath, Access: auth.Either, Query: pageQuery,
			Handler: a.operations, Doc: listOperationsDoc,
		},
		{
			Method: "GET", Path: operationPath, Access: auth.Either,
			Handler: a.operation, Doc: getOperationDoc,
		},

		{
			Method: "POST", Path: operationPath + "/pause", Access: auth.Produce, MaxBody: noBody,
			Handler: a.changeOperation(func(c *route.Call, namespace, id string) (contract.Operation, error) {
				return a.cfg.Operations.Pause(c.Context(), namespace, id, c.Caller())
			}), Doc: pauseOperationDoc,
		},
		{
			Method: "POST", Path: operationPath + "/continue", Access: auth.Produce, MaxBody: noBody,
			Handler: a.changeOperation(func(c *route.Call, namespace, id string) (contract.Operation, error) {
				return a.cfg.Operations.Continue(namespace, id, c.Caller())
			}), Doc: continueOperationDoc,
		},
		{
			Method: "POST", Path: operationPath + "/stop", Access: auth.Produce, MaxBody: noBody,
			Handler: a.changeOperation(func(c *route.Call, namespace, id string) (contract.Operation, error) {
				return a.cfg.Operations.Stop(c.Context(), namespace, id, c.Caller())
			}), Doc: stopOperationDoc,
		},
	}
}

func (a *API) startOperation(c *route.Call) error {
	n, err := route.Read(c, wire.NewOperationForm.ReadRequest)
	if err != nil {
		return err
	}
	if err := c.Require(spec.Access(n.Kind, len(n.IDs) > 0)); err != nil {
		return err
	}
	o, err := a.cfg.Operations.Start(contract.NamespaceOr(c.Namespace), n, operations.Actor{
		Caller: c.Caller(), Remote: c.R.RemoteAddr, Via: "api", Request: c.ID(),
	})
	if err != nil {
		return err
	}
	return c.Reply(http.StatusOK, wire.OperationForm.Append(c.Out(), o))
}

// operationBytes bounds an operation of a list in bytes: its texts and a canary.
const operationBytes = 2 << 10

func (a *API) operations(c *route.Call) error {
	p, err := c.Page()
	if err != nil {
		return err
	}
	// The reserved memory depends on the limit, so the default is filled in here.
	if err := contract.ValidatePage(&p); err != nil {
		return err
	}
	if err := c.ReserveMemory(int64(p.Limit) * operationBytes); err != nil {
		return err
	}
	list, next, err := a.cfg.Operations.List(contract.NamespaceOr(c.Namespace), p)
	if err != nil {
		return err
	}
	page := wire.OperationPage{Operations: list, Next: next}
	return c.Reply(http.StatusOK, wire.OperationsForm.Append(c.Room(len(list)*operationBytes), page))
}

func (a *API) operation(c *route.Call) error {
	o, err := a.cfg.Operations.Get(contract.NamespaceOr(c.Namespace), c.PathValue("id"))
	if err != nil {
		return err
	}

	// The answers name jobs and errors, which callers need a right to see.
	if c.Require(auth.Consume) != nil && c.Require(spec.Access(o.Kind, o.IDs > 0)) != nil {
		o.Answers = nil
	}
	size := operationBytes + len(o.Answers)*(duly.MaxID+operationBytes/4)
	if err := c.ReserveMemory(int64(size)); err != nil {
		return err
	}
	return c.Reply(http.StatusOK, wire.OperationForm.Append(c.Room(size), o))
}

// changeOperation returns the handler of a pause, continue or stop. The caller needs the right to start the operation.
func (a *API) changeOperation(
	change func(c *route.Call, namespace, id string) (contract.Operation, error),
) route.Handler {
	return func(c *route.Call) error {
		if err := empty(c); err != nil {
			return err
		}
		namespace, id := contract.NamespaceOr(c.Namespace), c.PathValue("id")
		o, err := a.cfg.Operations.Get(namespace, id)
		if err != nil {
			return err
		}
		if err := c.Require(spec.Access(o.Kind, o.IDs > 0)); err != nil {
			return err
		}
		if o, err = change(c, namespace, id); err != nil {
			return err
		}

		// The audit log has only the start and the end, so the log names the caller.
		c.Log().Info("an operation was changed", "operation", o.ID, "state", string(o.State), "by", c.Caller())
		return c.Empty()
	}
}
