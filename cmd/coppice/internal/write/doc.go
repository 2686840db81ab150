// Package write has the commands that write objects.
//
// [ApplyCommand], [CreateCommand], [ReplaceCommand] and [ImportCommand] write the objects of manifests, in batches of one
// kind and namespace; [DiffCommand] shows what apply would change. [EditCommand], [PatchCommand], [LabelCommand],
// [AnnotateCommand], [ProtectCommand] and [UnprotectCommand] change objects that exist, one by one.
package write
