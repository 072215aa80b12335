"""`tacit playground`: a local web page on which a person draws a gridworld, hides a constraint in it, demonstrates,
and watches what the exact method makes of the demonstrations.

    scene.py    what the page may ask for, checked: map, settings, demonstrations
    presets.py  maps to start from
    answer.py   solves a scene: cost, certificate, what the data leave open, where agents go
    server.py   the loopback server: who may ask, how much, how often
    page/       the page itself: plain HTML, CSS and JavaScript, nothing built, nothing loaded from elsewhere
"""
