"""The engine: a process of its own that decodes, preprocesses, promises and encodes one batch at a time.

`messages` is what front and engine say to each other and imports no torch; every other module of this
package runs in the engine alone.
"""
