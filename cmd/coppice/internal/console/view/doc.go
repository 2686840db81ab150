// Package view has what the console sends to the browser, as JSON, and what the browser sends back.
//
// The types of TypeScript in console/src/api/types.ts are written from these: a test compares them, and writes them with
// -update. A field without omitempty is always present. Times are in UTC, in the format of RFC 3339. Lists may be null.
package view
