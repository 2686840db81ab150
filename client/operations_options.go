package client

// ConsumersOptions are the options of OperationsClient.Consumers.
type ConsumersOptions struct {
	Finalizers []string
	Agents     []Resource
	Calls      []*CallOf
}

// ConsumersOption is an option of OperationsClient.Consumers: ForFinalizers, ForAgents or IncludeCalls.
type ConsumersOption interface{ ApplyToConsumers(o *ConsumersOptions) }

// ForFinalizers returns the consumers of these finalizers.
type ForFinalizers []string

// ApplyToConsumers sets o.Finalizers.
func (v ForFinalizers) ApplyToConsumers(o *ConsumersOptions) { o.Finalizers = v }

// IncludeCalls returns the states of these calls, at most 100, in addition to those of consumers.
type IncludeCalls []*CallOf

// ApplyToConsumers sets o.Calls.
func (v IncludeCalls) ApplyToConsumers(o *ConsumersOptions) { o.Calls = v }

// ForAgents returns the consumers of the agents of these resources.
type ForAgents []Resource

// ApplyToConsumers sets o.Agents.
func (v ForAgents) ApplyToConsumers(o *ConsumersOptions) { o.Agents = v }

// ParkedOptions are the options of OperationsClient.ListParked.
type ParkedOptions struct {
	After   uint64
	Limit   int
	IDs     []uint64
	Content bool
	Subject string
}

// ParkedOption is an option of OperationsClient.ListParked: AfterID, Limit,
// ForIDs, IncludeContent or ForSubject.
type ParkedOption interface{ ApplyToParked(o *ParkedOptions) }

// AfterID returns the page after an id: its value is ParkedPage.GetNext.
type AfterID uint64

// ApplyToParked sets o.After.
func (v AfterID) ApplyToParked(o *ParkedOptions) { o.After = uint64(v) }

// ForIDs returns only work with these ids, and leaves out unknown ones.
type ForIDs []uint64

// ApplyToParked sets o.IDs.
func (v ForIDs) ApplyToParked(o *ParkedOptions) { o.IDs = v }

// IncludeContent returns the content of the messages.
type IncludeContent bool

// ApplyToParked sets o.Content.
func (v IncludeContent) ApplyToParked(o *ParkedOptions) { o.Content = bool(v) }

// ForSubject returns only work that was parked from a subject.
type ForSubject string

// ApplyToParked sets o.Subject.
func (v ForSubject) ApplyToParked(o *ParkedOptions) { o.Subject = string(v) }

// RealmsOptions are the options of OperationsClient.ListRealms.
type RealmsOptions struct {
	Names   []string
	Deleted bool
}

// RealmsOption is an option of OperationsClient.ListRealms: ForNames or IncludeDeleted.
type RealmsOption interface{ ApplyToRealms(o *RealmsOptions) }

// ForNames returns only the realms with these names, and leaves out unknown ones.
type ForNames []string

// ApplyToRealms sets o.Names.
func (v ForNames) ApplyToRealms(o *RealmsOptions) { o.Names = v }

// IncludeDeleted also returns realms that were deleted.
type IncludeDeleted bool

// ApplyToRealms sets o.Deleted.
func (v IncludeDeleted) ApplyToRealms(o *RealmsOptions) { o.Deleted = bool(v) }

// DeleteRealmOptions are the options of OperationsClient.DeleteRealm.
type DeleteRealmOptions struct {
	WithoutArchive bool
}

// DeleteRealmOption is an option of OperationsClient.DeleteRealm: WithoutArchive.
type DeleteRealmOption interface {
	ApplyToDeleteRealm(o *DeleteRealmOptions)
}

// WithoutArchive deletes a realm without archiving the rest of its log. It is
// required if the graph services have no archive, and ends the wait for one that fails.
type WithoutArchive bool

// ApplyToDeleteRealm sets o.WithoutArchive.
func (v WithoutArchive) ApplyToDeleteRealm(o *DeleteRealmOptions) { o.WithoutArchive = bool(v) }

// VerifyOptions are the options of OperationsClient.Verify.
type VerifyOptions struct {
	OnProgress func(sequence, last uint64)
	Full       bool
}

// VerifyOption is an option of OperationsClient.Verify: OnProgress, FromFirstCommit.
type VerifyOption interface{ ApplyToVerify(o *VerifyOptions) }

// OnProgress is called every few seconds with the sequence of the last commit that was
// folded or archived, and that of the last commit to fold or to archive.
type OnProgress func(sequence, last uint64)

// ApplyToVerify sets o.OnProgress.
func (v OnProgress) ApplyToVerify(o *VerifyOptions) { o.OnProgress = v }

// ArchiveOptions are the options of OperationsClient.Archive.
type ArchiveOptions struct {
	OnProgress func(sequence, last uint64)
}

// ArchiveOption is an option of OperationsClient.Archive: OnProgress.
type ArchiveOption interface{ ApplyToArchive(o *ArchiveOptions) }

// ApplyToArchive sets o.OnProgress.
func (v OnProgress) ApplyToArchive(o *ArchiveOptions) { o.OnProgress = v }

// ApplyToArchive replaces all options by o.
func (o ArchiveOptions) ApplyToArchive(to *ArchiveOptions) { *to = o }

// FromFirstCommit folds the log from its first commit, and not from the newest verified
// snapshot of the archive. It is refused if the first commit cannot be read any more.
type FromFirstCommit bool

// ApplyToVerify sets o.Full.
func (v FromFirstCommit) ApplyToVerify(o *VerifyOptions) { o.Full = bool(v) }

// ReleaseBrakeOptions are the options of OperationsClient.ReleaseBrake.
type ReleaseBrakeOptions struct {
	DryRun bool
}

// ReleaseBrakeOption is an option of OperationsClient.ReleaseBrake: DryRun.
type ReleaseBrakeOption interface {
	ApplyToReleaseBrake(o *ReleaseBrakeOptions)
}

// ApplyToConsumers replaces all options by o.
func (o ConsumersOptions) ApplyToConsumers(to *ConsumersOptions) { *to = o }

// ApplyToParked replaces all options by o.
func (o ParkedOptions) ApplyToParked(to *ParkedOptions) { *to = o }

// ApplyToRealms replaces all options by o.
func (o RealmsOptions) ApplyToRealms(to *RealmsOptions) { *to = o }

// ApplyToDeleteRealm replaces all options by o.
func (o DeleteRealmOptions) ApplyToDeleteRealm(to *DeleteRealmOptions) { *to = o }

// ApplyToVerify replaces all options by o.
func (o VerifyOptions) ApplyToVerify(to *VerifyOptions) { *to = o }

// ApplyToReleaseBrake replaces all options by o.
func (o ReleaseBrakeOptions) ApplyToReleaseBrake(to *ReleaseBrakeOptions) { *to = o }
