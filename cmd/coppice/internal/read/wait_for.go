package read

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/cli"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/printing"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/terminal"
	"github.com/coppice-gc/coppice/internal/jsonpath"
	"github.com/coppice-gc/coppice/internal/rpc"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// condition reports whether an object is as a --for says.
type condition func(document any) (bool, error)

// awaited is what all --for together say.
type awaited struct {
	deleted, created bool
	conditions       []condition
}

func parseAwaited(texts []string) (a awaited, err error) {
	for _, text := range texts {
		var c condition
		name, argument, _ := strings.Cut(text, "=")
		switch {
		case strings.EqualFold(text, "delete"):
			a.deleted = true
			continue
		case strings.EqualFold(text, "create"):
			a.created = true
			c = func(any) (bool, error) { return true, nil }
		case name == "condition" && argument != "":
			if c, err = parseCondition(argument); err != nil {
				return a, cli.UsageErrorf("--for=%s: %w", text, err)
			}
		case name == "jsonpath" && argument != "":
			if c, err = parsePathCondition(argument); err != nil {
				return a, cli.UsageErrorf("--for=%s: %w", text, err)
			}
		default:
			return a, cli.UsageErrorf("--for=%q is not known; there are delete, create, condition=NAME[=VALUE] and jsonpath={PATH}[=VALUE]", text)
		}
		a.conditions = append(a.conditions, c)
	}
	if a.deleted && len(texts) > 1 {
		return a, cli.UsageErrorf("--for=delete does not go with another --for: an object that is gone has no conditions")
	}
	return a, nil
}

// parseCondition reads NAME[=VALUE]: the object has that condition in its status. As in
// kubectl, case does not matter, and a status that was not observed since the object has
// changed does not count.
func parseCondition(text string) (condition, error) {
	name, value, has := strings.Cut(text, "=")
	if !has {
		value = "true"
	}
	if strings.TrimSpace(name) == "" || strings.TrimSpace(value) == "" {
		return nil, errors.New("write condition=NAME=VALUE, or without =VALUE for the status True")
	}
	return func(document any) (bool, error) {
		for _, c := range member[[]any](document, "status", "conditions") {
			if !strings.EqualFold(member[string](c, "type"), name) {
				continue
			}
			observed, found := c, member[any](c, "observedGeneration") != nil
			if !found {
				observed = member[any](document, "status")
				found = member[any](observed, "observedGeneration") != nil
			}
			if found && member[int64](observed, "observedGeneration") < member[int64](document, "metadata", "generation") {
				return false, nil
			}
			return strings.EqualFold(member[string](c, "status"), value), nil
		}
		return false, nil
	}, nil
}

// member is a member of a decoded object, or the zero value if there is none of that type.
func member[T any](document any, names ...string) (value T) {
	for _, name := range names {
		object, _ := document.(map[string]any)
		document = object[name]
	}
	value, _ = document.(T)
	return value
}

// parsePathCondition reads PATH[=VALUE]: the path selects that value, or any. == is part of
// the path.
func parsePathCondition(text string) (condition, error) {
	parts := strings.Split(strings.ReplaceAll(text, "==", "\x00"), "=")
	for i := range parts {
		parts[i] = strings.ReplaceAll(parts[i], "\x00", "==")
	}
	value := strings.TrimSpace(strings.Trim(parts[len(parts)-1], `'"`))
	if parts[0] == "" || len(parts) > 2 || value == "" {
		return nil, errors.New("write jsonpath='{.status.phase}'=VALUE, or without =VALUE for any value")
	}
	path, err := jsonpath.ParsePath(parts[0])
	if err != nil {
		return nil, err
	}
	return func(document any) (bool, error) {
		values, err := path.Select(document)
		switch {
		case err != nil, len(values) == 0:
			return false, err
		case len(values) > 1:
			return false, fmt.Errorf("the path %s selects %d values: write a path that selects one", path, len(values))
		case len(parts) == 1:
			return true, nil
		}
		switch values[0].(type) {
		case map[string]any, []any:
			return false, fmt.Errorf("the path %s selects an object or a list, which has no value to compare", path)
		}
		return strings.TrimSpace(fmt.Sprint(values[0])) == value, nil
	}, nil
}

// waitFor waits until the objects are as the conditions say, one after the other. All of it
// has one timeout; with 0 it looks once.
func waitFor(ctx context.Context, s *cli.Session, args []string, f waitFlags, a awaited) error {
	targets, err := s.Chosen(ctx, args, f.ModifyFlags)
	if err != nil {
		return err
	}
	once := f.timeout == 0
	if !once {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, f.timeout)
		defer cancel()
	}
	var errs []error
	n := 0
	for _, t := range targets {
		objects, err := existingObjects(ctx, s, t, f, a.created && !once)
		errs = append(errs, cli.Joined(err)...)
		for _, o := range objects {
			n++
			errs = append(errs, waitConditions(ctx, s, t.Kind, o, once, a.conditions))
		}
	}
	err = errors.Join(errs...)
	if n == 0 && err == nil {
		return errors.New("no objects match")
	}
	return err
}

// existingObjects returns the objects of a target. With created it waits until there is one, and
// all that are named.
func existingObjects(ctx context.Context, s *cli.Session, t cli.Target, f waitFlags, created bool) (objects []*coppicev1.Object, err error) {
	var missing error
	look := func() (bool, error) {
		objects = nil
		err := s.Each(ctx, t, f.Where, f.Selector, func(o *coppicev1.Object) error {
			objects = append(objects, o)
			return nil
		})
		if created && errors.Is(err, client.ErrNotFound) {
			missing = err
			return false, nil
		}
		return len(objects) > 0, err
	}
	if created {
		err = lookUntil(ctx, s, false, look)
	} else if _, err = look(); err == nil || !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return objects, err
	} else {
		err = errTimedOut
	}
	if errors.Is(err, errTimedOut) && missing != nil {
		var errs []error
		for _, e := range cli.Joined(missing) {
			errs = append(errs, fmt.Errorf("%w: %w", errTimedOut, e))
		}
		return nil, errors.Join(errs...)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", client.ResourceOf(t.Kind), err)
	}
	return objects, nil
}

func waitConditions(ctx context.Context, s *cli.Session, k client.Kind, o *coppicev1.Object, once bool, conditions []condition) error {
	m, key := o.GetMetadata(), terminal.Printable(printing.Key(k, o.GetMetadata().GetName()))
	for _, met := range conditions {
		err := lookUntil(ctx, s, once, func() (bool, error) {
			o, err := s.Objects(k, m.GetNamespace()).Get(ctx, m.GetName())
			if err != nil {
				return false, err
			}
			document, err := jsonpath.Document(o)
			if err != nil {
				return false, err
			}
			return met(document)
		})
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		if _, err := fmt.Fprintln(s.Stdout, key, "condition met"); err != nil {
			return err
		}
	}
	return nil
}

var errTimedOut = errors.New("timed out waiting for the condition")

// lookUntil looks until a look succeeds, or once.
func lookUntil(ctx context.Context, s *cli.Session, once bool, look func() (bool, error)) error {
	for {
		start := s.Clock()
		done, err := look()
		switch {
		case done && err == nil:
			return nil
		case err != nil && (once || ctx.Err() == nil && !rpc.Retryable(err)):
			return err
		case once:
			return errors.New("condition not met")
		}
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return errTimedOut
			}
			return ctx.Err()
		case <-s.NextLook(start):
		}
	}
}
