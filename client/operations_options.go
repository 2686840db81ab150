package client

// ConsumersOptions are the options of OperationsClient.Consumers.
type ConsumersOptions struct {
	Finalizers []string
	Agents     []Resource
}

// ConsumersOption is an option of OperationsClient.Consumers: OfFinalizers or OfAgents.
type ConsumersOption interface{ ApplyToConsumers(o *ConsumersOptions) }

// OfFinalizers returns the consumers of these finalizers.
type OfFinalizers []string

// ApplyToConsumers sets o.Finalizers.
func (v OfFinalizers) ApplyToConsumers(o *ConsumersOptions) { o.Finalizers = v }

// OfAgents returns the consumers of the agents of these resources.
type OfAgents []Resource

// ApplyToConsumers sets o.Agents.
func (v OfAgents) ApplyToConsumers(o *ConsumersOptions) { o.Agents = v }

// ParkedOptions are the options of OperationsClient.ListParked.
type ParkedOptions struct {
	After   uint64
	Limit   int
	IDs     []uint64
	Content bool
	Subject string
}

// ParkedOption is an option of OperationsClient.ListParked: AfterID, Limit,
// WithIDs, WithContent or FromSubject.
type ParkedOption interface{ ApplyToParked(o *ParkedOptions) }

// AfterID returns the page after an id: its value is ParkedPage.GetNext.
type AfterID uint64

// ApplyToParked sets o.After.
func (v AfterID) ApplyToParked(o *ParkedOptions) { o.After = uint64(v) }

// WithIDs returns only work with these ids, and leaves out unknown ones.
type WithIDs []uint64

// ApplyToParked sets o.IDs.
func (v WithIDs) ApplyToParked(o *ParkedOptions) { o.IDs = v }

// WithContent returns the content of the messages.
type WithContent bool

// ApplyToParked sets o.Content.
func (v WithContent) ApplyToParked(o *ParkedOptions) { o.Content = bool(v) }

// FromSubject returns only work that was parked from a subject.
type FromSubject string

// ApplyToParked sets o.Subject.
func (v FromSubject) ApplyToParked(o *ParkedOptions) { o.Subject = string(v) }

// RealmsOptions are the options of OperationsClient.ListRealms.
type RealmsOptions struct {
	Names   []string
	Deleted bool
}

// RealmsOption is an option of OperationsClient.ListRealms: WithNames or WithDeleted.
type RealmsOption interface{ ApplyToRealms(o *RealmsOptions) }

// WithNames returns only the realms with these names, and leaves out unknown ones.
type WithNames []string

// ApplyToRealms sets o.Names.
func (v WithNames) ApplyToRealms(o *RealmsOptions) { o.Names = v }

// WithDeleted also returns realms that were deleted.
type WithDeleted bool

// ApplyToRealms sets o.Deleted.
func (v WithDeleted) ApplyToRealms(o *RealmsOptions) { o.Deleted = bool(v) }

// DeleteRealmOptions are the options of OperationsClient.DeleteRealm.
type DeleteRealmOptions struct {
	WithoutArchive bool
}

// DeleteRealmOption is an option of OperationsClient.DeleteRealm: WithoutArchive.
type DeleteRealmOption interface {
	ApplyToDeleteRealm(o *DeleteRealmOptions)
}

// WithoutArchive deletes a realm although its last commits may not be in an archive.
type WithoutArchive bool

// ApplyToDeleteRealm sets o.WithoutArchive.
func (v WithoutArchive) ApplyToDeleteRealm(o *DeleteRealmOptions) { o.WithoutArchive = bool(v) }

// VerifyOptions are the options of OperationsClient.Verify.
type VerifyOptions struct {
	OnProgress func(sequence, last uint64)
}

// VerifyOption is an option of OperationsClient.Verify: OnProgress.
type VerifyOption interface{ ApplyToVerify(o *VerifyOptions) }

// OnProgress is called every few seconds with the sequence of the last commit that was
// folded, and that of the last commit to fold.
type OnProgress func(sequence, last uint64)

// ApplyToVerify sets o.OnProgress.
func (v OnProgress) ApplyToVerify(o *VerifyOptions) { o.OnProgress = v }
