name = "world"
print("Good morning,", name)
