package scanner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// expire has the objects deleted that have expired. Those that the writer refuses, because they
// are protected, because a brake pauses their deletion, or because they have not expired by its
// clock, are found again.
func (s *scanner) expire(ctx context.Context) error {
	now := s.clock.now().UnixMicro()
	due := &coppicev1.DueRequest{Now: now, Limit: page}
	for {
		var found coppicev1.DueReply
		if err := s.call(ctx, bus.InternalSubject(s.realm, bus.OpDue), due, &found); err != nil {
			s.failed("expiry", err)
			return fmt.Errorf("find expired objects: %w", err)
		}
		if len(found.GetObjects()) > 0 {
			var reply coppicev1.ExpireReply
			request := &coppicev1.ExpireRequest{Now: now, Objects: found.GetObjects()}
			if err := s.call(ctx, bus.InternalSubject(s.realm, bus.OpExpire), request, &reply); err != nil {
				s.failed("expiry", err)
				return fmt.Errorf("delete expired objects: %w", err)
			}
			s.metrics.expired.WithLabelValues(s.realm).Add(float64(reply.GetExpired()))
		}
		if due.Cursor = found.GetCursor(); len(due.Cursor) == 0 {
			return nil
		}
	}
}

// policies has all expiry policies evaluated. If one fails, the others are evaluated nevertheless.
func (s *scanner) policies(ctx context.Context) error {
	names, err := s.names(ctx, policyPlural)
	var refusal *lifecycle.Error
	if errors.As(err, &refusal) && (refusal.Reason == api.ErrNotFound || refusal.Reason == api.ErrMethodNotAllowed) {
		return nil // the kind is not registered in this realm
	}
	if err != nil {
		s.failed("expiry", err)
		return fmt.Errorf("list expiry policies: %w", err)
	}
	for _, m := range []*prometheus.GaugeVec{s.metrics.matched, s.metrics.noticed} {
		m.DeletePartialMatch(prometheus.Labels{"realm": s.realm}) // of policies that were deleted
	}
	var failures error
	for _, name := range names {
		if err := s.policy(ctx, name); err != nil {
			s.failed("expiry", err)
			failures = errors.Join(failures, fmt.Errorf("expiry policy %s: %w", name, err))
		}
	}
	// A request without a policy withdraws the notices of policies that were changed or deleted.
	var reply coppicev1.ExamineReply
	if err := s.call(ctx, bus.InternalSubject(s.realm, bus.OpExamine), &coppicev1.ExamineRequest{Now: s.clock.now().UnixMicro()}, &reply); err != nil {
		s.failed("expiry", err)
		failures = errors.Join(failures, fmt.Errorf("withdraw notices: %w", err))
	}
	return failures
}

// policyPlural is the plural of the kind of expiry policies.
const policyPlural = "expirypolicies"

// policy has one policy evaluated on all objects of its kind, at the rate of a walk.
func (s *scanner) policy(ctx context.Context, name string) error {
	request := &coppicev1.ExamineRequest{Policy: name, Now: s.clock.now().UnixMicro(), Limit: page}
	matched, noticed, failed, failure := 0, 0, 0, ""
	for {
		begun := time.Now()
		var reply coppicev1.ExamineReply
		if err := s.call(ctx, bus.InternalSubject(s.realm, bus.OpExamine), request, &reply); err != nil {
			return err
		}
		matched, noticed, failed = matched+int(reply.GetMatched()), noticed+int(reply.GetNoticed()), failed+int(reply.GetFailed())
		if reply.GetFailure() != "" {
			failure = reply.GetFailure()
		}
		s.metrics.expired.WithLabelValues(s.realm).Add(float64(reply.GetExpired()))
		pause := time.Duration(reply.GetExamined())*time.Second/time.Duration(s.c.Rate) - time.Since(begun)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
		if request.Cursor = reply.GetCursor(); len(request.Cursor) == 0 {
			break
		}
	}
	s.metrics.matched.WithLabelValues(s.realm, name).Set(float64(matched))
	s.metrics.noticed.WithLabelValues(s.realm, name).Set(float64(noticed))
	if failed > 0 {
		s.log.Debug("the condition of an expiry policy has no result on some objects, which are kept", "policy", name, "objects", failed, "one", failure)
	}
	return nil
}
