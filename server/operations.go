package server

import (
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/server/metrics"
	"github.com/dulymq/duly/server/observe"
	"github.com/dulymq/duly/server/operations"
)

// OperationsFolder is the folder of the bulk operations, in the data folder.
const OperationsFolder = operations.Folder

// newOperations returns the bulk operations. They call the observed engine, so their jobs are counted like those of
// callers.
func (s *Server) newOperations(cfg *Config, observed *observe.Engine) (*operations.Manager, error) {
	return operations.New(operations.Config{
		Engine: observed, Clock: cfg.Clock, Audit: s.audit, DataDir: cfg.Listen.DataDir, Log: cfg.Logger,
	})
}

// operationMetrics returns the metrics of the bulk operations.
func (s *Server) operationMetrics() metrics.Operations {
	return metrics.Operations{
		States: func(do func(state string, n int)) {
			counts := s.operations.States()
			for _, state := range contract.OperationStates {
				do(string(state), counts[state])
			}
		},
		Jobs: func(do func(kind, outcome string, n int64)) {
			for of, n := range s.operations.Totals() {
				do(of.Kind, of.Outcome, n)
			}
		},
	}
}
