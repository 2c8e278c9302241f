package cli

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/open"
)

// completeWithin is how long the shell waits for names of queues.
const completeWithin = 500 * time.Millisecond

// completions is cobra's form of what the shell offers.
type completions = func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective)

// completeQueues offers the names of queues for the first n arguments; for all
// of them if n is 0. A file is not asked: opening it would take it from whoever
// works with it.
func (a *app) completeQueues(n int) completions {
	return func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		if n > 0 && len(args) >= n {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(context.Background(), completeWithin)
		defer cancel()
		return a.queueNames(ctx, word), cobra.ShellCompDirectiveNoFileComp
	}
}

// completeTopics offers the names of topics for the first n arguments.
func (a *app) completeTopics(n int) completions {
	return func(_ *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		if len(args) >= n {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(context.Background(), completeWithin)
		defer cancel()
		return a.offer(ctx, word, func(s *session, page duly.PageParams) (duly.NamePage, error) {
			topics, err := s.topics()
			if err != nil {
				return duly.NamePage{}, err
			}
			return topics.Topics(ctx, s.namespace, page)
		}), cobra.ShellCompDirectiveNoFileComp
	}
}

func (a *app) queueNames(ctx context.Context, prefix string) []string {
	return a.offer(ctx, prefix, func(s *session, page duly.PageParams) (duly.NamePage, error) {
		return s.Queues(ctx, s.namespace, page)
	})
}

// offer returns the names of a list's first page that begin with prefix.
func (a *app) offer(ctx context.Context, prefix string, list func(*session, duly.PageParams) (duly.NamePage, error)) (names []string) {
	at, err := a.find()
	if err != nil || !remote(at.url) && !open.Redis(at.url) {
		return nil
	}
	s, err := a.connect(ctx, false)
	if err != nil {
		return nil
	}
	defer s.Close()
	page, err := list(s, duly.PageParams{Limit: duly.MaxBatch})
	if err != nil {
		return nil
	}
	for _, name := range page.Names {
		if strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	return names
}

// fixed offers the only values that a flag can have.
func fixed(cmd *cobra.Command, flag string, values ...string) {
	err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	if err != nil {
		panic("cli: no flag " + flag + " in " + cmd.Name())
	}
}

// beginnings offers what the URL of an engine can begin with.
func beginnings(cmd *cobra.Command, flag string, schemes []string) {
	offer := cobra.FixedCompletions(schemes, cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveNoSpace)
	if err := cmd.RegisterFlagCompletionFunc(flag, offer); err != nil {
		panic("cli: no flag " + flag + " in " + cmd.Name())
	}
}

// stateNames are the values of every --state flag.
func stateNames() (names []string) {
	for _, s := range duly.States {
		names = append(names, s.String())
	}
	return names
}

// noCompletion offers nothing, not even files.
func noCompletion(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveNoFileComp
}
